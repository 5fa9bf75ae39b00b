"""Every file and reply that comes from elsewhere: a clear error or correct work, whatever its bytes are.

Each reader gets a valid input that was cut, flipped, spliced or nested, and plain bytes. It may return, or
raise one of our errors; anything else is a crash.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
from collections.abc import Callable
from functools import cache
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from questloop import settings as settings_module
from questloop.episodes.files import decode_observations, decode_states, encode_observations
from questloop.episodes.jsonl import from_jsonl
from questloop.episodes.segment import parse_manifest, parse_record
from questloop.errors import QuestloopError
from questloop.exploration.archive import Archive
from questloop.fleet import nvidia_smi
from questloop.game.input_script import parse_inputs
from questloop.game.rom import Rom
from questloop.game.state_file import SaveState
from questloop.grpo.data import load_rows
from questloop.judges.scores import SegmentScores
from questloop.llm.structured import ParseError, parse_object
from questloop.planner.plan import InvalidPlan, parse_plan
from questloop.reward_model.network import Ensemble, RewardModel, RewardReading
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.lease import Lease
from questloop.storage.store import open_store
from questloop.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

DEEP = b"[" * 100_000
DIGITS = b"9" * 5000
ODD = [b"", DEEP, b'{"a":' * 100_000, DIGITS, b"{}", b"[]", b"null", b"\xff\xfe", b"\0", b"\xc2\xb2"]
Reader = Callable[[bytes], object]


@cache
def documents() -> dict[str, bytes]:
    """A valid input of every kind that has one."""
    state = SaveState(b"bytes of an emulator" * 20, "0" * 64, "2.8", "1" * 64, "cell", 1.5)
    ensemble = Ensemble(torch.zeros(4), torch.ones(4), torch.Generator().manual_seed(0))
    model = RewardModel(ensemble, torch.zeros(3, 4), reading=RewardReading.MEAN, observation_version=1)
    return {
        "rom": Rom.load(None).data[:0x8000],
        "save state": state.to_bytes(),
        "observations": encode_observations(np.zeros((3, 4), np.float32)),
        "reward model": model.to_bytes(),
        "states": b'{"step": 0, "state": {}, "png": null}\n{"step": 1, "state": {"room": "a0"}}\n',
        "scores": b'{"segment_id": "a", "episode_id": "a", "epoch": 0, "judges": {}, "criteria": {}, '
        b'"weighted": 0.5, "agreement": null}\n',
        "manifest": b'{"schema_version": 1, "segment_id": "r1-e0000-s000-00000-00000-f0001", "files": []}',
        "record": b'{"schema_version": 1, "id": "r1-e0000-s000-00000", "epochs": [0], "segments": []}',
        "commit": b'{"schema_version": 1, "epoch": 0, "stage": "rollouts", "fence": 1, '
        b'"created": "2026-01-01T00:00:00Z", "objects": [], "info": {}}',
        "plan": b'{"macros": [{"do": "MOVE_TO", "row": 3, "column": 4}]}',
        "reply": b'Sure! {"overall": 0.5, "reason": "x"}',
        "inputs": b"UP 4\nA 1\nNOP 20\n",
        "archive": b'{"schema_version": 1, "capacity": 5, "cells": {"a": {"state": null, "raw_return": 0, '
        b'"seen": 1, "chosen": 0}}}',
        "lease": b'{"schema_version": 1, "run": "r1", "fence": 1, "token": "t", "lease_s": 1, "host": "h", '
        b'"process": "p", "pid": 1, "acquired": "2026-01-01T00:00:00Z"}',
        "checkpoint state": b'{"schema_version": 1, "epoch": 0, "observation_version": "v", "counts": {}, '
        b'"files": {}, "slots": {"a": {"$array": "/a"}}}',
        "gpus": b"0, GPU-1, A100, 81920, 10, 81910, 5, Disabled\n"
        b"1, GPU-2, A100, 81920, [N/A], 1, 2, Enabled\n",
        "settings": b'epoch_steps = 100\nray_workers = "auto"\nstore_url = "runs/x"\nplanner = true\n',
        "ids": b"r1-e0000-s000-00000-00000-f0001",
        "rows.json": b'[{"prompt": "a", "answer": 1}]',
        "rows.jsonl": b'{"prompt": "a", "answer": 1}\n{"prompt": "b"}\n',
        "rows.csv": b"prompt,answer\na,1\nb,2\n",
        "rows.parquet": _parquet(),
    }


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"prompt": ["a", "b"]}), file)
    return file.getvalue()


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """The valid document, with up to three things done to it."""
    data = documents()[name]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data = draw(
            st.sampled_from(
                [
                    data[:at],
                    data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :],
                    data[:at] + draw(st.binary(max_size=20)) + data[at:],
                    data[at:] + data[:at],
                    data[:at] + draw(st.sampled_from([*ODD, b"NaN", b"-1e999", b"null", b"[]"]))
                    + data[at:],
                ]
            )
        )  # fmt: skip
    return data


@pytest.fixture(scope="module")
def readers(tmp_path_factory) -> dict[str, Reader]:
    folder = tmp_path_factory.mktemp("untrusted")
    store = open_store(str(folder / "store"))
    arrays = {"/a": np.zeros(2)}
    write_checkpoint(store, 0, Checkpoint("v", {}, {}, {}, {"a": arrays["/a"]}))
    written = {entry.key: store.get(entry.key) for entry in store.list()}
    names = {key.rsplit("/", 1)[1]: keys.checkpoint(0, key.rsplit("/", 1)[1]) for key in written}
    files = json.loads(store.get(names["state.json"]))["files"]

    def stored(key: str, read: Callable[[], object]) -> Reader:
        def reader(data: bytes) -> object:
            store.put(key, data)
            return read()

        return reader

    def checkpoint(data: bytes) -> object:
        with contextlib.suppress(ValueError, TypeError, RecursionError, AttributeError):
            data = json.dumps(json.loads(data) | {"files": files}).encode()
        store.put(names["state.json"], data)
        return read_checkpoint(store, 0, "v")

    def config(data: bytes) -> object:
        path = folder / "settings.toml"
        path.write_bytes(data)
        return settings_module.load(path)

    def rows(suffix: str) -> Reader:
        def reader(data: bytes) -> object:
            path = folder / f"train.{suffix}"
            path.write_bytes(data)
            return load_rows(str(path))

        return reader

    def plan(data: bytes) -> object:
        with contextlib.suppress(InvalidPlan, ParseError):
            return parse_plan(parse_object(data.decode("utf-8", "replace"), ["macros"]))
        return None

    def reply(data: bytes) -> object:
        with contextlib.suppress(ParseError):
            return parse_object(data.decode("utf-8", "replace"), ["overall"])
        return None

    def gpus(data: bytes) -> object:
        text = data.decode("utf-8", "replace")
        answer = {"output": text, "exit_code": 0}
        return nvidia_smi.read({"gpus": answer, "apps": answer, "list": answer}, [])

    def lease(data: bytes) -> object:
        store.put(keys.lease(1), data)
        store.delete([keys.lease(2), keys.lease_beat(2)])
        ticks = count(step=60)
        return Lease.acquire(
            store, "r1", background=False, sleep=lambda _: None, clock=lambda: float(next(ticks))
        )

    def ids(data: bytes) -> object:
        text = data.decode("utf-8", "replace")
        for kind in (SegmentId, EpisodeId):
            with contextlib.suppress(QuestloopError):
                parsed = str(kind.parse(text))
                assert parsed == text
                assert not {"/", "..", "\0"} & set(parsed.split("."))
        return keys.segment_file(text, "states.jsonl")

    return {
        "rom": lambda data: Rom.of(folder, data),
        "save state": SaveState.from_bytes,
        "observations": lambda data: decode_observations(data, "key"),
        "reward model": lambda data: RewardModel.load(data, "rm.pt", 1),
        "states": lambda data: decode_states(data, "key"),
        "scores": lambda data: from_jsonl(SegmentScores, data, "key", "judge again"),
        "manifest": lambda data: parse_manifest(data, "key"),
        "record": lambda data: parse_record(data, "key"),
        "commit": stored(keys.commit(0, Stage.ROLLOUTS), lambda: read_commit(store, 0, Stage.ROLLOUTS)),
        "plan": plan,
        "reply": reply,
        "inputs": lambda data: parse_inputs(data.decode("utf-8", "replace")),
        "archive": stored(keys.archive(0), lambda: Archive.read(store, keys.archive(0))),
        "lease": lease,
        "checkpoint state": checkpoint,
        "gpus": gpus,
        "settings": config,
        "ids": ids,
        "rows.json": rows("json"),
        "rows.jsonl": rows("jsonl"),
        "rows.csv": rows("csv"),
        "rows.parquet": rows("parquet"),
    }


@pytest.mark.parametrize("name", sorted(documents()))
def test_the_valid_one_is_read(readers, name):
    with contextlib.suppress(QuestloopError):  # manifests and records are minimal ones
        readers[name](documents()[name])


@pytest.mark.parametrize("name", sorted(documents()))
@pytest.mark.parametrize("odd", ODD)
def test_odd_inputs(readers, name, odd):
    with contextlib.suppress(QuestloopError):
        readers[name](odd)


@pytest.mark.parametrize("name", sorted(documents()))
@settings(max_examples=40)
@given(data=st.data())
def test_a_damaged_one_is_read_or_refused(readers, name, data):
    with contextlib.suppress(QuestloopError):
        readers[name](data.draw(damaged(name)))


# Settings: any value of any type, as a TOML file may hold it

NAMES = sorted(settings_module.known_names())
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(
    st.dictionaries(st.sampled_from(sorted(settings_module.known_names())), VALUES, min_size=1, max_size=4)
)
@example({"ray_workers": [1]})
@example({"ray_workers": float("inf")})
@example({"judge_budget": {"a": 1}})
@example({"run_hours": float("nan")})
def test_any_setting_is_taken_or_refused_in_one_line(values):
    said = ""
    try:
        settings_module.load(flags=values)
    except QuestloopError as error:
        said = str(error)
    assert "\n" not in said


# No code of a file is run


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def test_no_code_in_a_file_is_run(readers, tmp_path):
    marker = str(tmp_path / "run")
    bomb = pickle.dumps(Bomb(marker))
    zipped = io.BytesIO()
    torch.save({"format": 1, "ensemble": Bomb(marker)}, zipped)
    objects = io.BytesIO()
    np.savez(objects, obs=np.array([Bomb(marker)], dtype=object))
    for data in (bomb, zipped.getvalue(), objects.getvalue()):
        for name, read in readers.items():
            with contextlib.suppress(QuestloopError):
                read(data)
            assert not os.path.exists(marker), name


def test_a_state_that_unpacks_to_more_than_it_says_is_refused():
    import zlib

    head = json.dumps({"format": 1, "rom_sha256": "", "pyboy_version": "", "layout_hash": "", "cell": "",
                       "raw_return": 0, "size": 10, "sha256": ""}).encode()  # fmt: skip
    squeezed = zlib.compressobj()
    body = b"".join(squeezed.compress(bytes(2**20)) for _ in range(64)) + squeezed.flush()
    with pytest.raises(QuestloopError, match="more than"):
        SaveState.from_bytes(b"QUESTLOOP-STATE\n" + head + b"\n" + body)
