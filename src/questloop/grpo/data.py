"""Reads the rows of a training set from JSON, JSONL, CSV, Parquet, a folder, or a hub dataset."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from questloop.errors import BadDataError, MissingExtraError, UnavailableError, UsageError

Row = dict[str, Any]

SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")


def load_rows(dataset: str, split: str = "train", config: str | None = None) -> list[Row]:
    """Read every row of `dataset`; columns that mix types are text afterwards.

    A folder gives its files whose name begins with `split`, or all of them where none does. A name that is no
    path is looked up on the hub, with `config` and `split`.
    Raises `UsageError` for a wrong path or name, `BadDataError` naming file and row, `UnavailableError` for a
    hub that cannot be reached.
    """
    path = Path(dataset).expanduser()
    if path.is_dir():
        rows = _read_folder(path, split)
    elif path.is_file():
        rows = _read_file(path)
    elif path.suffix in SUFFIXES or dataset.startswith((".", "/", "~")):
        raise UsageError(f"--dataset {dataset}: no such file or folder")
    else:
        rows = _read_hub(dataset, split, config)
    if not rows:
        raise BadDataError(f"--dataset {dataset}: it holds no rows")
    return unify(rows)


def unify(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Give every row every column, and every column one type: scalars of mixed types become text.

    >>> unify([{"answer": None}, {"answer": 4}, {"answer": "four", "level": 1}])
    [{'answer': None, 'level': None}, {'answer': '4', 'level': None}, {'answer': 'four', 'level': 1}]
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    as_text = {column for column in columns if _mixed(row.get(column) for row in rows)}
    return [
        {column: _text(row.get(column)) if column in as_text else row.get(column) for column in columns}
        for row in rows
    ]


def check_columns(rows: Sequence[Row], needed: Mapping[str, str], source: str) -> None:
    """Check that every row has every column of `needed`, which maps a column to what needs it.

    Raises `BadDataError` naming the column and the first row (from 0) without a value.
    """
    for column, user in needed.items():
        if column not in rows[0]:
            has = ", ".join(rows[0])
            raise BadDataError(f"{source}: no column {column!r}, which {user} needs; it has {has}")
        empty = next((index for index, row in enumerate(rows) if row[column] is None), None)
        if empty is not None:
            raise BadDataError(
                f"{source}: row {empty} has no {column!r}, which {user} needs; fill or drop it"
            )


def to_dataset(rows: Sequence[Row], source: str) -> Any:
    """Make a `datasets.Dataset` of rows. Raises `BadDataError` naming a column that mixes types."""
    datasets = import_datasets()
    try:
        return datasets.Dataset.from_list(list(rows))
    except Exception as error:
        for column in rows[0]:
            try:
                datasets.Dataset.from_dict({column: [row[column] for row in rows]})
            except Exception as reason:
                raise BadDataError(f"{source}: column {column!r} mixes types: {reason}") from None
        raise BadDataError(f"{source}: {error}") from None


def import_datasets() -> Any:
    """Import `datasets` or say which extra brings it."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("datasets", "grpo") from None
    return datasets


def _read_folder(folder: Path, split: str) -> list[Row]:
    if (folder / "dataset_info.json").exists() and (folder / "state.json").exists():
        return import_datasets().load_from_disk(str(folder)).to_list()
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    of_split = [path for path in files if path.stem.startswith(split)]
    if not files:
        raise UsageError(f"--dataset {folder}: the folder holds no {', '.join(SUFFIXES)} file")
    return [row for path in of_split or files for row in _read_file(path)]


def _read_file(path: Path) -> list[Row]:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise UsageError(f"--dataset {path}: its name must end in one of {', '.join(SUFFIXES)}")
    try:
        rows = reader(path)
    except (RecursionError, csv.Error) as error:
        raise BadDataError(f"{path}: cannot be read: {error}") from None
    except UnicodeDecodeError as error:
        raise BadDataError(f"{path}: not UTF-8 at byte {error.start}") from None
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadDataError(f"{path}: row {index} is {type(row).__name__}, not an object with columns")
    return rows


def _read_json(path: Path) -> list[Any]:
    try:
        document = json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise BadDataError(f"{path}: several documents; name it .jsonl if it has one per line") from None
        raise BadDataError(f"{path}: not JSON: {error}") from None
    except UnicodeDecodeError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise BadDataError(f"{path}: not JSON: {error}") from None
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else document
    if not isinstance(document, list):
        raise BadDataError(f"{path}: it must hold a list of rows")
    return document


def _read_jsonl(path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(path.read_text("utf-8-sig").split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise BadDataError(f"{path}: line {number} is not JSON: {error.msg}") from None
            except ValueError as error:  # a number of thousands of digits
                raise BadDataError(f"{path}: line {number} is not JSON: {error}") from None
    return rows


def _read_csv(path: Path) -> list[Row]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows: list[Row] = []
        for index, row in enumerate(csv.DictReader(file)):
            if None in row:
                raise BadDataError(f"{path}: row {index} has more fields than the header")
            rows.append({column: value or None for column, value in row.items()})
    return rows


def _read_parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "grpo") from None
    try:
        return parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise BadDataError(f"{path}: not a Parquet file: {error}") from None


_READERS: dict[str, Callable[[Path], list[Any]]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


def _read_hub(name: str, split: str, config: str | None) -> list[Row]:
    datasets = import_datasets()
    try:
        return datasets.load_dataset(name, config, split=split).to_list()
    except (ConnectionError, TimeoutError) as error:
        raise UnavailableError(f"--dataset {name}: no such path, and no hub in reach: {error}") from None
    except (FileNotFoundError, ValueError) as error:
        raise UsageError(f"--dataset {name}: no such path, and not on the hub: {error}") from None


def _mixed(values: Iterable[Any]) -> bool:
    kinds = {float if type(value) is int else type(value) for value in values if value is not None}
    return len(kinds) > 1 and not kinds & {dict, list}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
