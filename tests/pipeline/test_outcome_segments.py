"""From a store with real play to a dataset that teaches a judge."""

import json

import pytest
from tests.pipeline.playing import play
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.episodes.reader import SegmentReader
from questloop.errors import BadDataError, UsageError
from questloop.grpo.data import load_rows
from questloop.pipeline import outcome_segments as judge_records
from questloop.pipeline.outcome_segments import outcome_segments
from questloop.storage.store import open_store


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played")
    play(open_store(str(folder)), slots=3, steps=1500)
    return folder


def export(folder, out, *more):
    arguments = ["judge", "export", "--store", str(folder), "--out", str(out), "--json", *more]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_only_segments_whose_window_is_over_are_taken(played):
    reader = SegmentReader(open_store(str(played)))
    segments = list(outcome_segments(reader, [0]))
    ids = {segment.segment_id for segment in segments}
    assert ids < set(reader.list(0))
    starts = {reader.manifest(segment_id).first_step for segment_id in ids}
    assert {0, 300} <= starts  # 1,500 steps hold the 900 after each of these
    assert all(segment.text.startswith("Segment of 300 steps") for segment in segments)


def test_progress_is_the_return_of_the_window_after_the_segment(played):
    reader = SegmentReader(open_store(str(played)))
    for segment in outcome_segments(reader, [0]):
        first = reader.manifest(segment.segment_id).first_step + 300
        later = [reader.manifest(other) for other in reader.list(0) if other.startswith(segment.episode_id)]
        expected = sum(m.raw_return for m in later if first <= m.first_step < first + 900)
        assert segment.progress == pytest.approx(expected)


def test_the_command_writes_a_dataset(played, tmp_path, monkeypatch):
    with pytest.raises(BadDataError, match="judges learn from differences"):
        export(played, tmp_path / "none")
    real = judge_records.outcomes
    # random play reaches no milestone in 1,500 steps; take every other known outcome for one
    monkeypatch.setattr(
        judge_records,
        "outcomes",
        lambda reader, epoch: {
            name: index % 2 == 0 for index, name in enumerate(sorted(real(reader, epoch)))
        },
    )
    result = export(played, tmp_path / "data", "--task", "pair", "--held-out", "0.34")
    about = json.loads(result.stdout)
    assert about["epochs"] == [0]
    assert about["questions"]["train"]["pair"] == len(load_rows(str(tmp_path / "data")))


def test_an_unknown_task(played, tmp_path):
    with pytest.raises(UsageError, match="--task trio: choose from pair, milestone, band"):
        export(played, tmp_path, "--task", "trio")
