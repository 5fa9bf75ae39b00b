"""Event files are what TensorBoard itself reads."""

import pytest

from questloop.telemetry.tensorboard import Scalar, crc32c, write_events


def test_checksum():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def test_tensorboard_reads_them(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    points = [Scalar("play/return", 300 * step, step / 7, 1_700_000_000.0 + step) for step in range(5)]
    path = write_events(
        tmp_path / "tb", [*points, Scalar("epoch/alpha", 2**40, -0.5, 1_700_000_009.0)], "run"
    )
    assert path.name == "events.out.tfevents.run"
    events = accumulator.EventAccumulator(str(path)).Reload()
    assert set(events.Tags()["scalars"]) == {"play/return", "epoch/alpha"}
    read = events.Scalars("play/return")
    assert [item.step for item in read] == [0, 300, 600, 900, 1200]
    assert [item.value for item in read] == pytest.approx([step / 7 for step in range(5)])
    assert read[3].wall_time == 1_700_000_003.0
    assert events.Scalars("epoch/alpha")[0].step == 2**40


def test_an_earlier_file_is_replaced(tmp_path):
    first = write_events(tmp_path, [Scalar("a", 1, 1.0, 1.0)], "run").read_bytes()
    assert write_events(tmp_path, [], "run").read_bytes() != first
    assert len(list(tmp_path.iterdir())) == 1
