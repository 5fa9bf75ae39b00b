"""Reads states that were judged, to teach other judges."""

from __future__ import annotations

from collections.abc import Sequence

from questloop.episodes.cells import read_cells
from questloop.game.profiles import profile_in_force
from questloop.grpo.judge_data import JudgedState
from questloop.judges.ahead import waypoints
from questloop.judges.cells import CellText, read_book
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.commit import committed_epochs, holds
from questloop.storage.keys import Stage
from questloop.storage.store import Store


def judged_states(store: Store, epochs: Sequence[int], settings: Settings) -> list[JudgedState]:
    """The cells that `epochs` saw first and the rooms along the guide, as the newest pass judged them."""
    judged = [
        epoch
        for epoch in committed_epochs(store, Stage.EVALUATE)
        if holds(store, epoch, Stage.EVALUATE, keys.cell_scores(epoch))
    ]
    if not judged:
        return []
    score = {line.cell_id: line.score for line in read_book(store, judged[-1]).scores}
    seen = [cell for epoch in epochs for cell in read_cells(store, epoch)]
    shown = [(CellText.of(cell), cell.episode_id) for cell in seen]
    guide = profile_in_force(settings.game).guide
    if guide is not None:
        ahead = [CellText.ahead(waypoint) for waypoint in waypoints(guide)]
        shown += [(text, text.cell_id) for text in ahead]
    return [
        JudgedState(text.cell_id, episode, text.text, score[text.cell_id])
        for text, episode in shown
        if text.cell_id in score
    ]
