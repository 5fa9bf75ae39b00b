"""Built-in reward functions: small, pure, and alike for text and message completions.

Each takes `completions` (B texts or message lists) and the columns it names, each a list of length B, and
returns B floats; None abstains, so that the row is left out of that reward's statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from questloop.grpo.judge_rewards import JUDGE_REWARDS
from questloop.grpo.text import (
    TAGS,
    Completion,
    RewardFunction,
    final_answer,
    gold_answer,
    has_answer,
    number,
    quantity,
    same_text,
    sections,
    tagged_answer,
    text_of,
)

# Words a completion may have before `length_penalty` begins, where the data has no column `max_words`.
DEFAULT_MAX_WORDS = 256
_INTEGER = re.compile(r"[+-]?\d+")


def correctness(completions: Sequence[Completion], answer: Sequence[Any], **_: Any) -> list[float | None]:
    """1 where the answer (in `<answer>`, else the whole text) is the gold one; abstains without a gold one.

    >>> correctness(["<answer>4</answer>", "5", "N/A"], answer=["4", "4", "N/A"])
    [1.0, 0.0, None]
    """

    def score(text: str, gold: Any) -> float:
        said = tagged_answer(text)
        numbers = number(said), number(str(gold))
        equal = numbers[0] == numbers[1] if None not in numbers else same_text(said, gold)
        return float(equal)

    return [
        score(text_of(completion), gold) if has_answer(gold) else None
        for completion, gold in zip(completions, answer, strict=True)
    ]


def keyword_match(completions: Sequence[Completion], keywords: Sequence[Any], **_: Any) -> list[float | None]:
    """Share of the row's `keywords` (a list, or text separated by commas) that occur as whole words.

    >>> keyword_match(["The owl flew north.", "No idea."], keywords=["owl, north, key", ["owl"]])
    [0.6666666666666666, 0.0]
    """

    def score(text: str, words: list[str]) -> float:
        found = sum(
            bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)) for word in words
        )
        return found / len(words)

    wanted = [_keywords(row) for row in keywords]
    return [
        score(text_of(completion), words) if words else None
        for completion, words in zip(completions, wanted, strict=True)
    ]


def strict_format(completions: Sequence[Completion], **_: Any) -> list[float | None]:
    r"""1 for exactly a `<reasoning>` and an `<answer>` section, each tag on lines of its own, neither empty.

    >>> good = "<reasoning>\nTwo and two\r\nmake four.\n</reasoning>\r\n<answer>\n4\n</answer>"
    >>> strict_format([good, "<reasoning></reasoning><answer>a</answer>"])
    [1.0, 0.0]
    """

    def score(text: str) -> float:
        lines = [line.strip() for line in text.strip().splitlines()]
        bodies = sections(text)
        return float(bodies is not None and all(bodies) and all(tag in lines for tag in TAGS))

    return [score(text_of(completion)) for completion in completions]


def soft_format(completions: Sequence[Completion], **_: Any) -> list[float | None]:
    """1 for the two sections and nothing beside them; 0.5 if one is empty or text stands around them.

    >>> good = "<reasoning>Two and two.</reasoning> <answer>4</answer>"
    >>> soft_format([good, "Well: " + good, "<reasoning></reasoning><answer>a</answer>", "4"])
    [1.0, 0.5, 0.5, 0.0]
    """

    def score(text: str) -> float:
        bodies = sections(text)
        if bodies is not None:
            return 1.0 if all(bodies) else 0.5
        places = [text.find(tag) for tag in TAGS]
        return 0.5 if min(places) >= 0 and places == sorted(places) else 0.0

    return [score(text_of(completion)) for completion in completions]


def integer_answer(completions: Sequence[Completion], **_: Any) -> list[float | None]:
    """1 where the answer (in `<answer>`, else the whole text) is an integer.

    >>> integer_answer(["<answer>-4</answer>", "1,000", "four"])
    [1.0, 1.0, 0.0]
    """
    answers = (tagged_answer(text_of(completion)) for completion in completions)
    return [float(bool(_INTEGER.fullmatch(answer.replace(",", "")))) for answer in answers]


def xml_count(completions: Sequence[Completion], **_: Any) -> list[float | None]:
    """A quarter for each of the four tags that occurs once; less for empty sections and trailing text.

    >>> xml_count(["<reasoning>r</reasoning><answer>4</answer>", "<answer>4</answer>", "4"])
    [1.0, 0.5, 0.0]
    >>> xml_count(["<reasoning></reasoning><answer>a</answer>"])
    [0.5]
    """

    def score(text: str) -> float:
        once = [text.count(tag) == 1 for tag in TAGS]
        pairs = ((0, 1, TAGS[0], TAGS[1]), (2, 3, TAGS[2], TAGS[3]))
        for first, last, start, end in pairs:
            if once[first] and once[last] and not _between(text, start, end):
                once[first] = once[last] = False
        trailing = text.rpartition(TAGS[3])[2].strip() if TAGS[3] in text else ""
        return max(0.0, 0.25 * sum(once) - 0.001 * len(trailing))

    return [score(text_of(completion)) for completion in completions]


def math_answer(completions: Sequence[Completion], answer: Sequence[Any], **_: Any) -> list[float | None]:
    r"""1 where the final answer (`####`, `\boxed{}` or `<answer>`) equals the gold one; numbers by value.

    Words beside a number say of what it is one. A gold answer that cannot be read abstains.

    >>> math_answer(["#### 42 apples", "#### 1", "#### 1"], answer=["#### 42", "#### ", "1/0"])
    [1.0, None, None]
    >>> math_answer([r"\boxed{\frac{1}{2}}", "#### 1,000", "7"], answer=["0.5", "so #### 1000", "7"])
    [1.0, 1.0, 0.0]
    """

    def score(text: str, gold: str) -> float:
        said = final_answer(text)
        if said is None:
            return 0.0
        numbers = quantity(said), quantity(gold)
        return float(numbers[0] == numbers[1] if None not in numbers else same_text(said, gold))

    return [
        None if gold is None else score(text_of(completion), gold)
        for completion, gold in zip(completions, map(gold_answer, answer), strict=True)
    ]


def length_penalty(
    completions: Sequence[Completion], max_words: Sequence[int | None] | None = None, **_: Any
) -> list[float | None]:
    """0 up to `max_words` words (a column; 256 without it), then falling to -1 at twice as many.

    >>> length_penalty(["one two", "one two three"], max_words=[2, 2])
    [0.0, -0.5]
    """
    limits = max_words or [None] * len(completions)

    def score(count: int, limit: int) -> float:
        return max(-1.0, min(0.0, 1.0 - count / limit))

    return [
        score(len(text_of(completion).split()), int(limit or DEFAULT_MAX_WORDS))
        for completion, limit in zip(completions, limits, strict=True)
    ]


def repetition_penalty(completions: Sequence[Completion], **_: Any) -> list[float | None]:
    """Minus the share of a completion's word trigrams that occurred before: 0 is none, near -1 a loop.

    >>> repetition_penalty(["a b c d", "go north go north go north"])
    [0.0, -0.5]
    """

    def score(words: list[str]) -> float:
        grams = list(zip(words, words[1:], words[2:], strict=False))
        return len(set(grams)) / len(grams) - 1.0 if grams else 0.0

    return [score(text_of(completion).lower().split()) for completion in completions]


def _keywords(row: Any) -> list[str]:
    words: Iterable[Any] = row.split(",") if isinstance(row, str) else row or ()
    return [str(word).strip() for word in words if str(word).strip()]


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0].strip()


BUILTIN_REWARDS: dict[str, RewardFunction] = {
    "correctness": correctness,
    "keyword_match": keyword_match,
    "strict_format": strict_format,
    "soft_format": soft_format,
    "integer_answer": integer_answer,
    "xml_count": xml_count,
    "math_answer": math_answer,
    "length_penalty": length_penalty,
    "repetition_penalty": repetition_penalty,
    **JUDGE_REWARDS,
}
