import pytest
from tests.pipeline.playing import play

from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.judges.evaluate import JudgePass
from questloop.judges.request import prepare
from questloop.judges.scores import read_scores
from questloop.pipeline.judging import segment_infos, with_judges
from questloop.settings import JudgeSettings, LLMSettings
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
