import contextlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.episodes.files import decode_observations, decode_states, encode, encode_observations
from questloop.errors import BadDataError
from questloop.storage.store import sha256_hex


def test_a_segment_as_files(segments, recording):
    segment = segments[1]
    files, manifest = encode(segment, recording)
    states = decode_states(files["states.jsonl"], "states.jsonl")
    assert [state["step"] for state in states] == list(range(300, 450))
    assert [state["frame"] for state in states] == [4 * (step + 1) for step in range(300, 450)]
    pictures = [state["png"] for state in states if state["png"]]
    assert pictures == [f"frames/{step:06d}.png" for step in range(300, 450, 10)]
    assert set(files) == {"states.jsonl", "observations.npz", *pictures}
    assert states[0]["mode"] == "policy"
    assert states[0]["state"].keys() >= {"room", "pos", "health"}
    assert states[0]["action"] in ("UP", "DOWN", "LEFT", "RIGHT", "A", "B", "START", "NOP")
    paid = sum(sum(state["reward"].values()) for state in states)
    assert paid == pytest.approx(manifest.raw_return)
    assert 0 not in [value for state in states for value in state["reward"].values()]
    np.testing.assert_array_equal(decode_observations(files["observations.npz"], "o"), segment.obs)


def test_the_manifest(segments, recording):
    files, manifest = encode(segments[1], recording)
    assert {file.name: (file.sha256, file.size) for file in manifest.files} == {
        name: (sha256_hex(data), len(data)) for name, data in files.items()
    }
    assert (manifest.frames, manifest.pngs, manifest.last, manifest.index) == (150, 15, True, 1)
    assert (manifest.first_step, manifest.frame_skip) == (300, 4)
    assert (manifest.run, manifest.epoch, manifest.fence) == ("r1", 0, 1)
    assert manifest.reward_model_sha256 is None
    assert manifest.rom_sha256 == recording.rom.sha256
    assert (manifest.seed, manifest.start_state) == (5, "forest")
    assert manifest.rewards.keys() == {"room", "tile", "health"}
    json.dumps(manifest.model_dump(mode="json"), allow_nan=False)


def test_the_same_segment_gives_the_same_bytes(segments, recording):
    assert encode(segments[0], recording) == encode(segments[0], recording)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"step": 1, "state": {}}\n{"step": 2, "st', "cut off in line 2"),
        (b'{"step": 1}\n', "line 1: no step and state"),
        (b"[1]\n", "line 1: no step"),
        (b'{"step": 1, "state": {}}\nx\n', "line 2: "),
        (b'{"step": 1, "state": {"x": NaN}}\n', "line 1: NaN is not JSON"),
        (b"\xff\n", "line 1: "),
        (b"[" * 100_000 + b"\n", "line 1: "),
    ],
)
def test_damaged_states_are_named(data, says):
    with pytest.raises(BadDataError, match=f"^k: {says}"):
        decode_states(data, "k")


@given(st.binary(max_size=300))
def test_any_bytes_are_states_or_a_clear_error(data):
    for decode in (decode_states, decode_observations):
        with contextlib.suppress(BadDataError):
            decode(data, "k")


class _Mischief:
    def __reduce__(self):
        return print, ("run",)


def npz(array):
    file = io.BytesIO()
    np.savez(file, obs=array)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        npz(np.array([_Mischief()], dtype=object)),
        pickle.dumps(_Mischief()),
        npz(np.zeros((3, 4))),
        npz(np.zeros(3, np.float32)),
        npz(np.full((3, 4), np.nan, np.float32)),
        encode_observations(np.zeros((300, 128), np.float32))[:-100],
    ],
)
def test_other_arrays_are_refused_and_nothing_is_run(data, capsys):
    with pytest.raises(BadDataError, match=r"^k: "):
        decode_observations(data, "k")
    assert capsys.readouterr().out == ""


def test_an_archive_that_would_fill_the_memory_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("obs.npy", "w") as entry:
        for _ in range(70):
            entry.write(bytes(2**20))
    with pytest.raises(BadDataError, match="larger than 64 MB"):
        decode_observations(file.getvalue(), "k")


@given(st.integers(0, 2000), st.integers(0, 255))
def test_one_changed_byte_is_no_crash(place, value):
    data = bytearray(encode_observations(np.arange(600, dtype=np.float32).reshape(30, 20)))
    data[place % len(data)] = value
    with contextlib.suppress(BadDataError):
        assert decode_observations(bytes(data), "k").ndim == 2


def test_no_changed_bit_is_a_crash():
    data = bytearray(encode_observations(np.arange(20, dtype=np.float32).reshape(4, 5)))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(BadDataError):
            assert decode_observations(bytes(data), "k").ndim == 2
        data[bit // 8] ^= 1 << bit % 8
