"""States for judges that learn, out of a finished run."""

import pytest

from questloop.episodes.cells import read_cells
from questloop.grpo.judge_data import STATE_TASKS, build
from questloop.judges.ahead import is_imagined
from questloop.judges.cells import read_book
from questloop.pipeline.judged_states import judged_states
from questloop.settings import load
from questloop.storage.store import open_store

pytestmark = pytest.mark.slow


def test_cells_and_rooms_ahead_come_with_what_the_newest_pass_said(finished_run):
    store = open_store(str(finished_run))
    found = judged_states(store, [0, 1], load())
    score = {line.cell_id: line.score for line in read_book(store, 1).scores}
    assert {state.cell_id: state.score for state in found} == score
    seen = {cell.cell_id: cell.episode_id for epoch in (0, 1) for cell in read_cells(store, epoch)}
    assert {state.cell_id for state in found if not is_imagined(state.cell_id)} == seen.keys()
    assert all(state.episode_id == seen.get(state.cell_id, state.cell_id) for state in found)
    assert build([], STATE_TASKS, states=found).held_out


def test_a_store_that_was_not_judged_has_none(tmp_path):
    assert judged_states(open_store(str(tmp_path)), [0], load()) == []
