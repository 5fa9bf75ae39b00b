import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.llm.structured import ParseError, ParseFailure, parse_object


@pytest.mark.parametrize(
    "text",
    [
        '{"overall": 0.5}',
        'Sure, here it is:\n```json\n{"overall": 0.5}\n```\nHope it helps {smile}.',
        '<think>maybe {"overall": 0.9}?</think> {"overall": 0.5}',
        '{{{ {"overall": 0.5}',
    ],
)
def test_finds_the_answer_in_what_models_say(text):
    assert parse_object(text, ["overall"]) == {"overall": 0.5}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ParseFailure.EMPTY),
        ("  \n", ParseFailure.EMPTY),
        ("Cannot evaluate", ParseFailure.NO_JSON),
        ("7", ParseFailure.NO_JSON),
        ('{"overall": 0.', ParseFailure.BAD_JSON),
        ("{" * 100_000, ParseFailure.BAD_JSON),
        ('{"overal": 0.5}', ParseFailure.MISSING_FIELD),
        ('["overall", 0.5]', ParseFailure.NO_JSON),
    ],
)
def test_says_why_there_is_none(text, reason):
    with pytest.raises(ParseError) as error:
        parse_object(text, ["overall"])
    assert error.value.reason is reason


@given(st.text(max_size=300))
def test_never_fails_in_another_way(text):
    with contextlib.suppress(ParseError):
        assert "overall" in parse_object(text, ["overall"])
