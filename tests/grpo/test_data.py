"""Datasets of every kind come out as the same rows, and what is wrong is named by column and row."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.errors import BadDataError, UsageError
from questloop.grpo.data import check_columns, load_rows, to_dataset, unify

ROWS = [{"prompt": "2+2?", "answer": "4"}, {"prompt": "größer?\nJa", "answer": 'a "b", c'}]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write(path, rows):
    if path.suffix == ".json":
        path.write_text(json.dumps(rows), "utf-8-sig")
    elif path.suffix == ".jsonl":
        write_jsonl(path, rows)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".parquet"])
def test_every_format_gives_the_same_rows(tmp_path, suffix):
    assert load_rows(str(write(tmp_path / f"data{suffix}", ROWS))) == ROWS


def test_a_folder_gives_its_split_else_everything(tmp_path):
    write(tmp_path / "a.json", ROWS[:1])
    write(tmp_path / "b.csv", ROWS[1:])
    assert load_rows(str(tmp_path)) == ROWS
    write(tmp_path / "train.jsonl", ROWS[:1])
    write(tmp_path / "held_out.jsonl", ROWS[1:])
    assert load_rows(str(tmp_path)) == ROWS[:1]
    assert load_rows(str(tmp_path), split="held_out") == ROWS[1:]


def test_a_saved_dataset_loads(tmp_path):
    to_dataset(ROWS, "here").save_to_disk(str(tmp_path / "saved"))
    assert load_rows(str(tmp_path / "saved")) == ROWS


@pytest.mark.parametrize(
    ("answers", "loaded"),
    [
        ([None, "four"], [None, "four"]),
        ([4, "four"], ["4", "four"]),
        ([4, 4.5, None], [4, 4.5, None]),
        ([True, "yes"], ["true", "yes"]),
        ([None, None], [None, None]),
        ([["a"], [], None], [["a"], [], None]),
    ],
)
def test_columns_that_mix_types_load(tmp_path, answers, loaded):
    path = write_jsonl(tmp_path / "mixed.jsonl", [{"prompt": "p", "answer": answer} for answer in answers])
    rows = load_rows(str(path))
    assert [row["answer"] for row in rows] == loaded
    assert to_dataset(rows, str(path))["answer"][:] == loaded


def test_columns_that_only_some_rows_have(tmp_path):
    rows = load_rows(str(write_jsonl(tmp_path / "d.jsonl", [{"prompt": "a"}, {"prompt": "b", "level": 2}])))
    assert rows == [{"prompt": "a", "level": None}, {"prompt": "b", "level": 2}]


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=5))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, min_size=1), min_size=1, max_size=6))
def test_any_rows_of_scalars_become_a_dataset(rows):
    unified = unify(rows)
    assert to_dataset(unified, "here").to_list() == unified


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", '{"prompt": "a"}\n{"prompt": \n', "line 2 is not JSON"),
        ("d.jsonl", '{"prompt": "a"}\n[1]\n', "row 1 is list, not an object"),
        ("d.json", '{"a": 1}', "must hold a list of rows"),
        ("d.json", '{"prompt": "a"}\n{"prompt": "b"}', "name it .jsonl"),
        ("d.json", "[", "not JSON"),
        ("d.csv", "prompt,answer\na,b,c\n", "row 0 has more fields than the header"),
        ("d.csv", "prompt,answer\n", "it holds no rows"),
        ("d.parquet", "PAR1", "not a Parquet file"),
    ],
)
def test_a_broken_file_says_where(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadDataError, match=message):
        load_rows(str(tmp_path / name))


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"prompt\n\xff\xfe\n")
    with pytest.raises(BadDataError, match="not UTF-8 at byte 7"):
        load_rows(str(tmp_path / "d.csv"))


@pytest.mark.parametrize(
    ("name", "message"), [("no/such/file.jsonl", "no such file"), ("./nowhere", "no such file")]
)
def test_a_path_that_is_not_there(name, message):
    with pytest.raises(UsageError, match=message):
        load_rows(name)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "d.txt").write_text("hello")
    with pytest.raises(UsageError, match="must end in one of"):
        load_rows(str(tmp_path / "d.txt"))
    with pytest.raises(UsageError, match="the folder holds no"):
        load_rows(str(tmp_path))


def test_a_missing_column_or_value_is_named_with_its_row():
    needed = {"answer": "the reward correctness"}
    with pytest.raises(
        BadDataError, match=r"d: no column 'answer', which the reward correctness needs; it has"
    ):
        check_columns([{"prompt": "a"}], needed, "d")
    with pytest.raises(BadDataError, match=r"d: row 1 has no 'answer'"):
        check_columns(unify([{"prompt": "a", "answer": 0}, {"prompt": "b"}]), needed, "d")


def test_nested_values_of_two_types_name_the_column():
    with pytest.raises(BadDataError, match="column 'tags' mixes types"):
        to_dataset([{"prompt": "a", "tags": [1]}, {"prompt": "b", "tags": ["x"]}], "d")
