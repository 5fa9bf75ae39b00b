"""The cells of a run: what tells them apart, and that each is noted once."""

import dataclasses

import numpy as np
import pytest

from questloop.episodes.cells import (
    CellCollector,
    cell_ids,
    read_cells,
    read_seen_cells,
    seen_in_epochs,
)
from questloop.episodes.epoch_export import EpochExport
from questloop.episodes.exporter import Exporter
from questloop.episodes.retention import retire_epochs
from questloop.errors import BadDataError
from questloop.game.columns import Columns
from questloop.game.state import decode
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import open_store


def columns(**values):
    made = Columns.zeros(1)
    for name, value in ({"x": 20, "y": 20} | values).items():
        getattr(made, name)[0] = value
    return made


@pytest.mark.parametrize(
    "other",
    [
        {"room": 1}, {"group": 1}, {"x": 60}, {"x": 150}, {"y": 50}, {"small_keys": 1}, {"boss_keys": 1},
        {"sword_level": 1}, {"shield_level": 1}, {"milestones": 1}, {"milestones": 1 << 63},
        {"items": np.eye(16, dtype=np.uint8)[15]}, {"large_room": True, "x": 100},
    ],
)  # fmt: skip
def test_a_cell_is_a_place_and_what_was_achieved(other):
    assert cell_ids(columns(**other)) != cell_ids(columns())


@pytest.mark.parametrize(
    "other", [{"x": 30}, {"y": 5}, {"health": 3}, {"rupees": 7}, {"direction": 2}, {"enemies": 1}]
)
def test_what_passes_makes_no_other_cell(other):
    assert cell_ids(columns(**other)) == cell_ids(columns())


def test_a_hero_at_the_edge_of_a_room_is_in_its_last_part():
    assert cell_ids(columns(x=255, y=255)) == cell_ids(columns(x=159, y=127))


def test_ids_are_the_same_everywhere():
    assert f"{int(cell_ids(columns(room=0x21))[0]):016x}" == "557015a2b7cab54d"


def collect(recording, trace, seen=(), epoch=0):
    collector = CellCollector(recording.profile, epoch, seen)
    collector.add(trace, lambda t, slot: f"e{slot}-{t >= 450 and slot == 0}")
    return collector


def test_each_cell_is_noted_where_it_was_first_seen(played, recording, store):
    collector = collect(recording, played)
    assert len(collector) > 10
    collector.write(store)
    commit_stage(store, 0, Stage.ROLLOUTS, 1, [])
    first: dict[str, tuple[int, int]] = {}
    for t, slot in np.ndindex(played.shape):
        row = played.taps[t, slot]
        here = recording.profile.columns(row[None])
        if here.has_control[0] and not (here.transition | here.text_active | here.dying)[0]:
            first.setdefault(f"{int(cell_ids(here)[0]):016x}", (t, slot))
    noted = {each.cell.cell_id: each for each in collector._found}
    assert noted.keys() == first.keys()
    for cell_id, (t, slot) in first.items():
        seen = noted[cell_id]
        assert seen.cell.step == played.episode_step[t, slot]
        assert seen.cell.episode_id == f"e{slot}-{t >= 450 and slot == 0}"
        assert seen.cell.state == decode(played.taps[t, slot], recording.profile).to_json()
        np.testing.assert_array_equal(seen.observation, played.obs[t, slot])


def test_a_second_trace_and_a_later_epoch_note_what_is_new_alone(played, recording):
    names = ("episode_step", "action", "mode", "boundary", "taps", "obs")
    first = dataclasses.replace(played, **{name: getattr(played, name)[:200] for name in names})
    collector = collect(recording, first)
    before = collector.seen
    collector.add(played, lambda t, slot: "e")
    assert collector.seen > before
    later = collect(recording, played, before, epoch=1)
    assert later.seen == collector.seen
    assert len(later) == len(collector.seen) - len(before)
    assert len(collect(recording, played, collector.seen)) == 0


def export(store, recorder, recording, trace, epoch=0, seen=()):
    collector = CellCollector(recording.profile, epoch, seen)
    running = EpochExport(
        store, recorder, Exporter(store, recording), budget="all", epoch_steps=1400, seed=0, cells=collector
    )
    running.add(trace)
    report = running.close()
    commit_stage(store, epoch, Stage.ROLLOUTS, 1, report.objects)
    return report, collector


def test_an_export_commits_them_with_the_episodes_that_they_are_of(played, recording, make_recorder, store):
    report, collector = export(store, make_recorder(), recording, played)
    assert report.cells == len(collector) > 0
    assert {keys.cells(0), keys.cell_observations(0)} <= {item.key for item in report.objects}
    cells = read_cells(store, 0)
    assert {cell.episode_id for cell in cells} <= {record.id for record in report.episodes}
    assert seen_in_epochs(store, [0]) == collector.seen
    seen = read_seen_cells(store, 0)
    assert [each.cell for each in seen] == cells
    assert np.stack([each.observation for each in seen]).shape == (len(cells), 128)


def test_they_outlive_the_episodes_of_a_retired_epoch(played, recording, make_recorder, store):
    export(store, make_recorder(), recording, played)
    commit_stage(store, 1, Stage.ROLLOUTS, 1, [])
    assert retire_epochs(store, 1) == (0,)
    assert not store.exists(keys.replays(0)) or read_seen_cells(store, 0)
    assert len(read_seen_cells(store, 0)) > 0


def test_an_epoch_of_an_earlier_version_has_none(store):
    commit_stage(store, 0, Stage.ROLLOUTS, 1, [])
    assert read_cells(store, 0) == read_seen_cells(store, 0) == []
    assert read_cells(store, 7) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "line 1"),
        (b'{"cell_id": "x", "epoch": 0, "episode_id": "e", "step": 0, "state": {}}', "cell_id"),
    ],
)
def test_a_document_that_is_none_is_named(tmp_path, line, says):
    store = open_store(str(tmp_path))
    commit_stage(store, 0, Stage.ROLLOUTS, 1, [store.put(keys.cells(0), line)])
    with pytest.raises(BadDataError, match=rf"cells\.jsonl.*{says}"):
        read_cells(store, 0)


def test_observations_that_are_not_those_of_the_cells_are_refused(played, recording, make_recorder, store):
    export(store, make_recorder(), recording, played)
    from questloop.episodes.files import encode_observations

    store.put(keys.cell_observations(0), encode_observations(np.zeros((2, 128), np.float32)))
    with pytest.raises(BadDataError, match="2 observations of"):
        read_seen_cells(store, 0)


def test_milestones_beyond_the_64th_make_another_cell():
    from questloop.game.columns import Columns

    columns = Columns.zeros(3)
    columns.milestones[:] = [1, 1 | 1 << 70, 1 | 1 << 71]
    assert len(set(cell_ids(columns).tolist())) == 3
