"""Where judges lead: what they are asked for it, and whose scores decide."""

from types import SimpleNamespace

from questloop.episodes.jsonl import to_jsonl
from questloop.game.guide import NOWHERE, bundled_guide
from questloop.judges.ahead import choices, waypoints
from questloop.judges.cells import CellScore
from questloop.pipeline.judging import STAGES_AHEAD, _ahead
from questloop.pipeline.stages import judged_aims
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import open_store

GUIDE = bundled_guide("mossgrove")
SEEN = [SimpleNamespace(state={"milestones": reached}) for reached in ((), ("met_elder", "sword_1"))]


def asked(**values):
    return {text.cell_id: text.compared for text in _ahead(GUIDE, SEEN, Settings(**values))}


def test_places_are_asked_about_at_the_stages_that_the_run_has_come_to_and_the_next_ones():
    route = {waypoint.cell_id for waypoint in waypoints(GUIDE)}
    places = {choice.cell_id for choice in choices(GUIDE, 3 + STAGES_AHEAD)}
    assert asked(aims="guide").keys() == asked(aims="judges", hint_interval=9).keys() == route
    assert asked(aims="judges").keys() == route | places


def test_only_what_a_reward_model_learns_from_is_compared():
    route = {waypoint.cell_id for waypoint in waypoints(GUIDE)}
    assert {cell_id for cell_id, compared in asked(aims="judges").items() if compared} == route


def judge(store, epoch, best):
    """A pass that scores `best` highest at the first stage."""
    lines = [
        CellScore(
            cell_id=each.cell_id, score=float(each.place == best), spread=0, model="any", fingerprint="any"
        )
        for each in choices(GUIDE, 1)
    ]
    written = [
        store.put(keys.cell_scores(epoch), to_jsonl(lines)),
        store.put(keys.cell_preferences(epoch), to_jsonl([])),
    ]
    commit_stage(store, epoch, Stage.EVALUATE, 1, written)


def test_those_judges_lead_whose_reward_model_is_in_force(tmp_path):
    store, settings = open_store(str(tmp_path)), Settings(aims="judges")
    judge(store, 0, 0x020)
    assert set(judged_aims(store, 1, settings)) == {NOWHERE}, "nothing was learned from them yet"
    commit_stage(store, 0, Stage.REWARD_MODEL, 1, [store.put(keys.reward_model(0), b"model")])
    judge(store, 1, 0x022)
    assert judged_aims(store, 1, settings)[0] == judged_aims(store, 2, settings)[0] == 0x020
    commit_stage(store, 1, Stage.REWARD_MODEL, 1, [store.put(keys.reward_model(1), b"other")])
    assert judged_aims(store, 2, settings)[0] == 0x022
    assert judged_aims(store, 2, Settings(aims="guide")) is None
    assert judged_aims(store, 2, Settings(aims="judges", hint_interval=9)) is None
