"""Reads text inside prompts and completions: plain or messages, sections and final answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

# A completion as TRL hands it over: text, or the messages that the model added to the conversation.
Completion = str | Sequence[Mapping[str, Any]]
RewardFunction = Callable[..., list[float | None]]

_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}| )(?=(?:\d{3}[, ])*\d{3}(?!\d))")
_FRACTION = re.compile(r"\\[dt]?frac(?:\{([+-]?\d{1,40})\}|(\d))(?:\{(\d{1,40})\}|(\d))")
_MIXED = re.compile(r"([+-]?)(\d{1,40}) (\d{1,40}) ?/ ?(\d{1,40})")
_WORDS_IN_MATH = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{([^{}]*)\}")
_MATH_SIGNS = re.compile(r"\\[()\[\],!;%$]|[$%\u20ac\u00a3\u00b0]")
_ONE_SIGN = str.maketrans({"\u2212": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " "})
_SCALES = {"hundred", "thousand", "million", "billion", "trillion", "dozen", "half", "minu", "negative"}
_LONGEST_ANSWER = 200
_BY_ZERO = re.compile(r"/\s*0+(?:\.0*)?\s*$|\\[dt]?frac\{[^{}]*\}\{\s*0+\s*\}")
_NO_ANSWER = {"", "n/a", "na", "none", "null", "nan"}


def text_of(completion: Completion) -> str:
    r"""Return the text of a completion, whether it is plain text or messages.

    >>> text_of("4")
    '4'
    >>> text_of([{"role": "assistant", "content": "4"}])
    '4'
    >>> text_of([{"role": "assistant", "content": [{"type": "text", "text": "4"}]}])
    '4'
    """
    if isinstance(completion, str):
        return completion
    return "\n".join(_content(message.get("content")) for message in completion)


def sections(text: str) -> tuple[str, str] | None:
    r"""Split `<reasoning>..</reasoning><answer>..</answer>` into its two bodies; None if it is not that.

    Nothing but white space may stand before, between or after the two sections, and no tag may occur twice.

    >>> sections("<reasoning>\nTwo and two.\n</reasoning>\n<answer>\n4\n</answer>\n")
    ('Two and two.', '4')
    >>> sections("Well: <reasoning>a</reasoning><answer>4</answer>") is None
    True
    """
    stripped = text.strip()
    if any(stripped.count(tag) != 1 for tag in TAGS):
        return None
    opening, reasoning_end, answer_start, closing = (stripped.index(tag) for tag in TAGS)
    if opening != 0 or not opening < reasoning_end < answer_start < closing:
        return None
    if stripped[reasoning_end + len(TAGS[1]) : answer_start].strip() or stripped[closing + len(TAGS[3]) :]:
        return None
    reasoning = stripped[len(TAGS[0]) : reasoning_end]
    answer = stripped[answer_start + len(TAGS[2]) : closing]
    return reasoning.strip(), answer.strip()


TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")


def tagged_answer(text: str) -> str:
    """Return the body of the last `<answer>` section, or the whole text where there is none.

    >>> tagged_answer("<reasoning>2+2</reasoning> <answer> 4 </answer>")
    '4'
    >>> tagged_answer(" 4 ")
    '4'
    """
    _, tag, rest = text.rpartition("<answer>")
    return (rest.partition("</answer>")[0] if tag else text).strip()


def final_answer(text: str) -> str | None:
    r"""Return what stands after the last `####`, in the last `\boxed{}` or in `<answer>`; None if nowhere.

    >>> final_answer("6 x 7 = 42\n#### 42")
    '42'
    >>> final_answer(r"so \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    >>> final_answer("I do not know") is None
    True
    """
    boxed = _boxed(text)
    if boxed is not None:
        return boxed
    _, mark, rest = text.rpartition("####")
    if mark:
        return rest.strip().split("\n")[0].partition("</answer>")[0].strip() or None
    return tagged_answer(text) if "<answer>" in text else None


def gold_answer(gold: Any) -> str | None:
    r"""The answer that a gold text holds; None where it cannot be told: no completion is judged by that.

    >>> [gold_answer(gold) for gold in ("6 x 7 = 42\n#### 42", r"\boxed{4}", 7, "Paris")]
    ['42', '4', '7', 'Paris']
    >>> [gold_answer(gold) for gold in ("#### ", r"so \boxed{4", "1/0", ["4"], "a\nb", "#### N/A", None)]
    [None, None, None, None, None, None, None]
    """
    if not has_answer(gold) or isinstance(gold, Mapping) or not isinstance(gold, str | int | float | bool):
        return None
    text = str(gold).strip()
    marked = any(mark in text for mark in ("####", "\\boxed", "<answer>"))
    answer = final_answer(text) if marked else text
    if answer is None or not has_answer(answer) or "\n" in answer or len(answer) > _LONGEST_ANSWER:
        return None
    return None if _BY_ZERO.search(answer) else answer


def has_answer(gold: Any) -> bool:
    """Whether a gold answer can be compared at all: `N/A`, nothing and not-a-number cannot.

    >>> [has_answer(gold) for gold in ("42", 0, False, "N/A", " ", None, float("nan"))]
    [True, True, True, False, False, False, False]
    """
    return gold is not None and str(gold).strip().lower() not in _NO_ANSWER


def same_text(answer: str, gold: Any) -> bool:
    """Whether two answers agree but for case, white space and a final full stop.

    >>> same_text("The  Owl.", "the owl")
    True
    """
    return _plain(answer) == _plain(str(gold))


def number(text: str) -> Fraction | None:
    r"""Read an integer, decimal, fraction or mixed number exactly, as models and people write them.

    Thousands separators, currencies, `%` and degrees are put aside, and so are the marks around a number in
    mathematics, Markdown and parentheses.

    >>> number("$1,234.50") == Fraction(2469, 2), number(r"\frac{-1}{2}"), number("3/4"), number("1,2")
    (True, Fraction(-1, 2), Fraction(3, 4), None)
    >>> number("1 1/2"), number(r"\(1{,}000\)"), number("**\u22125**"), number(r"\text{42}"), number("1 2")
    (Fraction(3, 2), Fraction(1000, 1), Fraction(-5, 1), Fraction(42, 1), None)
    """
    plain = _WORDS_IN_MATH.sub(r"\1", text.translate(_ONE_SIGN))
    plain = _MATH_SIGNS.sub("", plain).strip(" \n\t*_`#").rstrip(".")
    if plain.startswith("(") and plain.endswith(")"):
        plain = plain[1:-1]
    plain = _FRACTION.sub(_as_fraction, _THOUSANDS.sub("", plain)).strip()
    if mixed := _MIXED.fullmatch(plain):
        sign, whole, *part = mixed.groups()
        share = number("/".join(part))
        return None if share is None else Fraction(f"{sign}1") * (int(whole) + share)
    numerator, slash, denominator = (part.strip() for part in plain.partition("/"))
    if not _NUMBER.fullmatch(numerator) or (slash and not _NUMBER.fullmatch(denominator)):
        return None
    if not slash:
        return Fraction(numerator)
    return Fraction(numerator) / Fraction(denominator) if Fraction(denominator) else None


def _as_fraction(found: re.Match[str]) -> str:
    """`\\frac{1}{2}` and `\\frac12` as 1/2; after a whole number it is the rest of a mixed one."""
    above, below = found[1] or found[2], found[3] or found[4]
    return (
        f" {above}/{below}"
        if found.start() and found.string[found.start() - 1].isdigit()
        else f"{above}/{below}"
    )


def quantity(text: str) -> Fraction | None:
    """A number, also with words around it that say of what: "42 apples", "about 42".

    >>> quantity("42 apples"), quantity("$1,000 per day"), quantity("2x"), quantity("5 million")
    (Fraction(42, 1), Fraction(1000, 1), None, None)
    """
    exact = number(text)
    if exact is not None:
        return exact
    words = [word.strip(".,:;!?") for word in text.split()]
    numbers = [number(word) for word in words if any(character.isdigit() for character in word)]
    rest = [word for word in words if not any(character.isdigit() for character in word)]
    plain = all(len(word) > 1 and word.replace("-", "").isalpha() for word in rest)
    if len(numbers) != 1 or not plain or any(word.lower().rstrip("s") in _SCALES for word in rest):
        return None
    return numbers[0]


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    body = text[start + len("\\boxed") :]
    for position, character in enumerate(body):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return body[1:position].strip() or None
    return None


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")
