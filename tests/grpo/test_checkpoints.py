"""A checkpoint that was cut off is never taken for a whole one."""

import pytest

from questloop.errors import UsageError
from questloop.grpo.checkpoints import check_same_run, drop_broken, is_whole, mark_complete, newest_whole


def checkpoint(run, step, complete=True):
    folder = run / f"checkpoint-{step}"
    (folder / "inner").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "inner" / "more.bin").write_bytes(b"more")
    if complete:
        mark_complete(folder)
    return folder


def test_the_newest_is_by_step_not_by_name(tmp_path):
    assert newest_whole(tmp_path / "nowhere") is None
    checkpoint(tmp_path, 90)
    newest = checkpoint(tmp_path, 100)
    (tmp_path / "checkpoint-old").mkdir()
    assert newest_whole(tmp_path) == newest


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "model.safetensors").write_bytes(b"wei"),
        lambda folder: (folder / "inner" / "more.bin").unlink(),
        lambda folder: (folder / "complete.json").unlink(),
        lambda folder: (folder / "complete.json").write_text('{"files": {'),
        lambda folder: (folder / "complete.json").write_text("[]"),
    ],
)
def test_the_one_before_is_used_when_the_newest_is_half_written(tmp_path, damage):
    before, newest = checkpoint(tmp_path, 4), checkpoint(tmp_path, 8)
    damage(newest)
    assert not is_whole(newest)
    assert newest_whole(tmp_path) == before
    assert drop_broken(tmp_path) == [newest]
    assert not newest.exists()
    assert before.exists()


def test_a_folder_with_another_run_is_refused(tmp_path):
    folder = tmp_path / "run"
    check_same_run(folder, {"seed": 0, "rewards": ["correctness"]})
    check_same_run(folder, {"seed": 0, "rewards": ["correctness"]})
    with pytest.raises(UsageError, match=r"other settings \(seed 0 -> 1\): take another folder"):
        check_same_run(folder, {"seed": 1, "rewards": ["correctness"]})
