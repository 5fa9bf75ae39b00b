"""From raw rows to prompts."""

import pytest

from questloop.errors import BadDataError, UsageError
from questloop.grpo.pipelines import DEEPSEEK_SYSTEM, generic, prepare


@pytest.mark.parametrize("column", ["prompt", "question", "problem", "query", "instruction"])
@pytest.mark.parametrize("answer", ["answer", "output", "response", "solution", "target"])
def test_generic_finds_prompt_and_answer_and_keeps_the_rest(column, answer):
    row = {"id": 7, column: "2+2?", answer: "4", "keywords": ["two"]}
    assert generic(row) == {"id": 7, "prompt": "2+2?", "answer": "4", "keywords": ["two"]}


def test_generic_prefers_the_plain_names_and_loses_nothing():
    row = {"prompt": "p", "question": "q", "answer": "a", "output": "o"}
    assert generic(row) == row


def test_instruction_with_input():
    assert generic({"instruction": "Add.", "input": "2 2", "output": "4"})["prompt"] == "Add.\n\n2 2"


def test_deepseek_asks_for_reasoning_and_keeps_a_system_message_of_the_data():
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    (row,) = prepare([{"prompt": prompt, "answer": "4 #### 4"}], "deepseek", "d")
    assert row["prompt"] == [
        {"role": "system", "content": f"Be brief.\n\n{DEEPSEEK_SYSTEM}"},
        {"role": "user", "content": "2+2?"},
    ]
    assert row["answer"] == "4"


def test_a_users_pipeline_maps_and_drops_rows(tmp_path, monkeypatch):
    (tmp_path / "own_pipeline.py").write_text(
        "def short(row):\n"
        "    if row['q'] == 'boom': raise ValueError('boom')\n"
        "    if row['q'] == 'what': return 4\n"
        "    return {'prompt': row['q'].upper(), 'n': row['n']} if row['n'] < 3 else None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path, str(tmp_path)])
    rows = [{"q": "a", "n": n} for n in range(5)]
    assert [row["n"] for row in prepare(rows, "own_pipeline:short", "d")] == [0, 1, 2]
    with pytest.raises(BadDataError, match=r"d: row 1: --preprocess own_pipeline:short raised ValueError"):
        prepare([rows[0], {"q": "boom", "n": 0}], "own_pipeline:short", "d")
    with pytest.raises(BadDataError, match="returned int; return a row or None"):
        prepare([{"q": "what", "n": 0}], "own_pipeline:short", "d")
    with pytest.raises(BadDataError, match="dropped all 1 rows"):
        prepare(rows[4:], "own_pipeline:short", "d")


def test_an_unknown_pipeline():
    with pytest.raises(UsageError, match="--preprocess deepsek: write it as module:function"):
        prepare([{"prompt": "p"}], "deepsek", "d")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prompt": "a"}, {"prompt": None}], "row 1 has no prompt"),
        ([{"text": "a"}], r"row 0 has no prompt: .* it has text"),
        ([{"prompt": " "}], "column 'prompt' is empty"),
        ([{"prompt": 4}], "column 'prompt' is int"),
        ([{"prompt": []}], "column 'prompt' is list"),
        ([{"prompt": [{"role": "user"}]}], "a message must be"),
        ([{"prompt": [{"role": "bot", "content": "a"}]}], "role 'bot' is not one of"),
        (
            [{"prompt": "a"}, {"prompt": [{"role": "user", "content": "b"}]}],
            "text in some rows, messages in others",
        ),
    ],
)
def test_a_prompt_that_is_none_is_named_with_its_row(rows, message):
    with pytest.raises(BadDataError, match=message):
        prepare(rows, "generic", "d")
