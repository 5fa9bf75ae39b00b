"""What holds for every built-in reward, and the faults that users of other trainers met."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.grpo.rewards import (
    BUILTIN_REWARDS,
    correctness,
    keyword_match,
    length_penalty,
    math_answer,
    repetition_penalty,
    soft_format,
    strict_format,
    xml_count,
)

PIECES = st.sampled_from(
    [
        "<reasoning>",
        "</reasoning>",
        "<answer>",
        "</answer>",
        "\n",
        "\r\n",
        "4",
        "#### 4",
        "\\boxed{4}",
        "A",
        "\\boxed{",
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=12).map("".join)
GOLDS = st.one_of(
    st.none(), st.text(max_size=6), st.integers(), st.floats(), st.sampled_from(["N/A", "#### 4", "A"])
)
RANGES = {"length_penalty": (-1, 0), "repetition_penalty": (-1, 0)}


def columns(golds):
    rows = len(golds)
    return {
        "answer": ["A" if gold is None else gold for gold in golds],
        "keywords": [str(gold) for gold in golds],
        "labels": [["A", "B"]] * rows,
    }


def message(text):
    return [{"role": "assistant", "content": text}]


@pytest.mark.parametrize("name", BUILTIN_REWARDS)
@given(rows=st.lists(st.tuples(TEXTS, GOLDS), min_size=1, max_size=4))
def test_a_reward_is_in_range_and_alike_for_text_and_messages(name, rows):
    texts = [text for text, _ in rows]
    extra = columns(["A"] * len(rows) if name.startswith("judge") else [gold for _, gold in rows])
    low, high = RANGES.get(name, (0, 1))

    values = BUILTIN_REWARDS[name](prompts=texts, completions=texts, **extra)

    assert len(values) == len(rows)
    assert all(value is None or (math.isfinite(value) and low <= value <= high) for value in values)
    assert values == BUILTIN_REWARDS[name](prompts=texts, completions=[message(t) for t in texts], **extra)


@given(st.integers(-(10**12), 10**12))
def test_the_right_number_is_right_however_it_is_written(value):
    forms = [f"<answer>{value}</answer>", f"<answer>\n{value:,}.0\n</answer>", f"${value}"]
    assert correctness(forms, answer=[str(value)] * 3) == [1.0] * 3
    assert math_answer([f"so\n#### {value:,}", rf"\boxed{{{value}}}", "none"], answer=[value] * 3) == [
        1,
        1,
        0,
    ]


@pytest.mark.parametrize("gold", ["N/A", "n/a", "", " ", None, float("nan")])
def test_a_row_without_a_gold_answer_abstains_and_is_never_right(gold):
    assert correctness(["<answer>N/A</answer>", ""], answer=[gold, gold]) == [None, None]
    assert math_answer(["#### N/A", r"\boxed{nan}"], answer=[gold, gold]) == [None, None]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_strict_format_takes_many_lines_any_line_ending_and_no_final_newline(line, end):
    text = (
        line.join(["<reasoning>", "one", "", "two", "</reasoning>", "<answer>", "4", "4", "</answer>"]) + end
    )
    assert strict_format([text]) == [1.0]


@pytest.mark.parametrize(
    "text",
    [
        "<reasoning>r</reasoning><answer>4</answer>",  # not on lines of their own
        "<reasoning>\nr\n</reasoning>\n<answer>\n4\n</answer>\nand so on",
        "<reasoning>\n</reasoning>\n<answer>\n4\n</answer>",
        "<answer>\n4\n</answer>\n<reasoning>\nr\n</reasoning>",
        "<reasoning>\nr\n</reasoning>\n<answer>\n4\n</answer>\n<answer>\n5\n</answer>",
    ],
)
def test_strict_format_refuses(text):
    assert strict_format([text]) == [0.0]


def test_empty_reasoning_and_a_letter_does_not_get_full_marks():
    text = "<reasoning></reasoning><answer>a</answer>"
    assert strict_format([text]) == [0.0]
    assert soft_format([text]) == [0.5]
    assert xml_count([text]) == [0.5]


def test_keywords_are_whole_words_and_rows_without_any_abstain():
    assert keyword_match(["The key.", "monkey", "x"], keywords=["key", "key", None]) == [1.0, 0.0, None]


def test_a_huge_number_costs_no_time():
    assert correctness(["1e999999999", "9" * 5000], answer=["1", "1"]) == [0.0, 0.0]


def test_penalties_grow():
    words = [" ".join(f"w{i}" for i in range(n)) for n in (10, 15, 20, 40)]
    assert length_penalty(words, max_words=[10] * 4) == [0.0, -0.5, -1.0, -1.0]
    assert repetition_penalty(["go " * 3, "go " * 30]) == [0.0, pytest.approx(-27 / 28)]


@pytest.mark.parametrize(
    ("said", "gold", "value"),
    [
        ("#### 42 apples", "42", 1.0),
        ("#### 42", "so they have\n#### 42 apples", 1.0),
        ("#### about 42 apples.", "42", 1.0),
        ("#### $1,000 per day", "1000", 1.0),
        ("#### 43 apples", "42 apples", 0.0),
        ("#### 42 or 43", "42", 0.0),
        ("#### 2x", "2", 0.0),
        ("#### 5 million", "5", 0.0),
        ("#### minus 5", "5", 0.0),
        ("#### Paris", "Paris", 1.0),
        ("#### 4", "#### ", None),
        ("#### 4", "\\boxed{4", None),
        ("#### 4", "1/0", None),
        ("#### 4", ["4"], None),
        ("#### 4", {"value": 4}, None),
        ("#### 4", "first this\nthen that", None),
        ("#### 4", "#### N/A", None),
        ("#### 4", 4, 1.0),
    ],
)
def test_final_answers_and_golds_that_cannot_be_read(said, gold, value):
    assert BUILTIN_REWARDS["math_answer"]([said], answer=[gold]) == [value]


@pytest.mark.parametrize(
    ("said", "gold", "right"),
    [
        (r"\boxed{1{,}234}", "1234", 1.0),
        ("#### \u22125", "-5", 1.0),
        ("#### **42**", "42", 1.0),
        (r"#### \(42\)", "42", 1.0),
        (r"\boxed{\text{42}}", "42", 1.0),
        (r"\boxed{\frac{-1}2}", "-0.5", 1.0),
        ("#### 1 1/2", "1.5", 1.0),
        ("#### 1 1/2", "5.5", 0.0),
        (r"\boxed{1\frac12}", "1.5", 1.0),
        ("#### 1 000 000", "1,000,000", 1.0),
        ("#### 1 2", "12", 0.0),
        ("#### \u20ac5", "5", 1.0),
        ("#### (-3)", "-3", 1.0),
        ("#### 1 0/0", "1", 0.0),
    ],
)
def test_a_number_is_read_as_models_and_people_write_it(said, gold, right):
    assert math_answer([said], answer=[gold]) == [right]
