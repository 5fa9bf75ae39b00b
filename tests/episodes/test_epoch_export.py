import numpy as np
from tests.episodes.conftest import SLOTS, STEPS, cut

from questloop.episodes.epoch_export import RESERVE, EpochExport
from questloop.episodes.exporter import Exporter
from questloop.episodes.reader import SegmentReader
from questloop.episodes.recorder import Recorder
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import open_store


def export(store, recorder, recording, traces, budget, epoch_steps=STEPS * SLOTS, seed=0):
    epoch = EpochExport(
        store, recorder, Exporter(store, recording), budget=budget, epoch_steps=epoch_steps, seed=seed
    )
    for trace in traces:
        epoch.add(trace)
    return epoch.close()


def test_an_epoch_in_the_store(store, played, make_recorder, recording):
    traces = [cut(played, start, start + 100) for start in range(0, STEPS, 100)]
    report = export(store, make_recorder(), recording, traces, "all")
    assert (report.segments, report.segments_completed, report.pngs) == (4, 4, 105)
    commit_stage(store, 0, Stage.ROLLOUTS, 1, report.objects)
    reader = SegmentReader(store)
    assert len(reader.list(0)) == 4
    records = reader.episodes(0)
    assert records == tuple(sorted(report.episodes, key=lambda record: record.id))
    exported = [entry.segment_id for record in records for entry in record.segments if entry.exported]
    assert sorted(exported) == list(reader.list(0))
    for segment_id in reader.list(0):
        reader.load(segment_id).check()


def test_the_budget_is_kept_and_spent(tmp_path, played, make_recorder, recording):
    for budget, expected in [(1, 1), (3, 3), (400, 4)]:
        store = open_store(str(tmp_path / str(budget)))
        traces = [cut(played, start, start + 50) for start in range(0, STEPS, 50)]
        report = export(store, make_recorder(), recording, traces, budget)
        assert (report.segments, report.segments_completed) == (expected, 4)
        entries = [entry for record in report.episodes for entry in record.segments]
        assert sum(entry.exported for entry in entries) == expected
        assert len(entries) == 4


def test_selection_does_not_depend_on_timing(tmp_path, recording):
    """The same traces give the same segments, however the uploads went."""
    chosen = []
    for attempt in range(2):
        store = open_store(str(tmp_path / str(attempt)))
        recorder = Recorder(4, run="r1", epoch=0, fence=1, reward_names=("room",), milestone_names=())
        traces = [blank(recording, 4, start) for start in range(0, 1500, 50)]
        report = export(store, recorder, recording, traces, 8, epoch_steps=6000)
        chosen.append([item.key for item in report.objects])
        assert report.segments == 8
    assert chosen[0] == chosen[1]


def test_few_segments_wait_in_memory(store, recording):
    recorder = Recorder(8, run="r1", epoch=0, fence=1, reward_names=("room",), milestone_names=())
    epoch = EpochExport(store, recorder, Exporter(store, recording), budget=60, epoch_steps=24000, seed=0)
    most = 0
    for start in range(0, 3000, 50):
        epoch.add(blank(recording, 8, start))
        most = max(most, len(epoch._selection))
    assert most <= 6 + RESERVE
    report = epoch.close()
    assert (report.segments, report.segments_completed) == (60, 80)


def test_abort_leaves_orphans_only(store, played, make_recorder, recording):
    epoch = EpochExport(
        store, make_recorder(), Exporter(store, recording), budget="all", epoch_steps=1400, seed=0
    )
    epoch.add(played)
    epoch.abort()
    assert not any(entry.key.endswith("episode.json") for entry in store.list())


def blank(recording, slots, start, steps=50):
    from questloop.episodes.trace import Trace

    return Trace(
        episode_step=np.repeat(np.arange(start, start + steps)[:, None], slots, axis=1),
        action=np.zeros((steps, slots), np.uint8),
        mode=np.zeros((steps, slots), np.uint8),
        boundary=np.zeros((steps, slots), np.uint8),
        taps=np.zeros((steps, slots, recording.profile.layout.size), np.uint8),
        obs=np.zeros((steps, slots, 128), np.float32),
        reward_parts=np.zeros((steps, slots, 1), np.float32),
        milestones=np.zeros((steps, slots), np.uint64),
    )
