import shutil

import pytest
from tests.pipeline.playing import play

from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.game.guide import NOWHERE, bundled_guide
from questloop.judges.ahead import chosen_places
from questloop.judges.cells import read_book
from questloop.judges.evaluate import JudgePass
from questloop.judges.request import prepare
from questloop.judges.scores import read_scores
from questloop.pipeline.judging import judge_epoch, segment_infos, with_judges
from questloop.settings import JudgeSettings, LLMSettings, Settings
from questloop.storage.store import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = open_store(str(tmp_path_factory.mktemp("played")))
    play(store)
    return store


def test_segments_are_listed_with_what_selection_needs(store):
    infos = segment_infos(SegmentReader(store), 0)
    assert len(infos) == 12
    assert len({info.episode_id for info in infos}) == 4
    assert any(info.raw_return > 0 for info in infos)


def test_the_real_games_states_and_pictures_are_read(store):
    reader = SegmentReader(store)
    case = prepare(reader.load(reader.list(0)[0]))
    assert "Segment of 300 steps, 0 to 299" in case.text
    assert "room " in case.text
    assert case.pictures[0].label == "start", "the title before it is not the game"
    assert case.pictures[0].step < 100


def test_judges_score_the_real_game(store):
    reader = SegmentReader(store)
    known = outcomes(reader, 0)
    result = with_judges(
        LLMSettings(),
        lambda client: JudgePass(store, 0, client, JudgeSettings(), announce=lambda _: None).run(
            segment_infos(reader, 0), reader.load, known
        ),
    )
    scores = read_scores(store, 0)
    assert result.summary.judged == len(scores) == 12
    assert len({line.weighted for line in scores}) > 6
    assert result.summary.alpha is not None


def test_outcomes_are_known_only_where_the_window_is_over(store):
    for segment_id, value in outcomes(SegmentReader(store), 0).items():
        assert value or "-00000-f" in segment_id


@pytest.mark.slow
@pytest.mark.parametrize(("aims", "asked"), [("guide", False), ("judges", True)])
def test_judges_are_asked_where_to_go_at_the_stages_that_were_played(finished_run, tmp_path, aims, asked):
    shutil.copytree(finished_run, tmp_path / "store")
    settings = Settings(aims=aims, store_url=str(tmp_path / "store"))
    store = open_store(settings.store.store_url)
    judge_epoch(settings, store, 1, restart=True, announce=lambda _: None)
    guide = bundled_guide("mossgrove")
    scores = {line.cell_id: line.score for line in read_book(store, 1).scores}
    told = [place for place in chosen_places(guide, scores) if place != NOWHERE]
    assert told == [aim.place for aim in guide.aims[: len(told)]]
    assert bool(told) is asked
