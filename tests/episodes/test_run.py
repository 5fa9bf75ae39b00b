"""A store belongs to one run."""

import pytest

from questloop import settings
from questloop.episodes.run import open_run, read_run, run_id
from questloop.errors import BadDataError, UsageError
from questloop.storage import keys
from questloop.storage.commit import to_json
from questloop.storage.keys import is_run_id
from questloop.storage.store import open_store


def test_a_run_is_begun_once_and_found_again(tmp_path):
    store = open_store(str(tmp_path))
    first = open_run(store, settings.load(flags={"seed": 3}))
    assert first.run == "mossgrove-s3"
    assert open_run(store, settings.load(flags={"seed": 3})) == first == read_run(store)


@pytest.mark.parametrize(("name", "value"), [("seed", 4), ("observation", "visual"), ("frame_skip", 8)])
def test_other_settings_are_refused_with_both_values(tmp_path, name, value):
    store = open_store(str(tmp_path))
    open_run(store, settings.load())
    with pytest.raises(UsageError, match=f"{name}.*{value}") as caught:
        open_run(store, settings.load(flags={name: value}))
    assert "STORE_URL" in str(caught.value)


def test_a_run_of_an_earlier_observation_is_read_but_not_gone_on_with(tmp_path):
    """One line says what there is to do; nothing is written."""
    store = open_store(str(tmp_path))
    begun = open_run(store, settings.load())
    old = begun.model_copy(update={"observation_version": begun.observation_version - 1})
    store.put(keys.run(), to_json(old))
    assert read_run(store) == old
    with pytest.raises(BadDataError, match="begin a run in another STORE_URL") as caught:
        open_run(store, settings.load())
    assert "\n" not in str(caught.value)
    assert read_run(store) == old


def test_a_store_without_a_run_says_how_to_begin_one(tmp_path):
    with pytest.raises(BadDataError, match="questloop pipeline"):
        read_run(open_store(str(tmp_path)))


@pytest.mark.parametrize("game", ["Mossgrove", "Zelda: Oracle of Seasons (USA)", "!!!", "x" * 99, "-a-"])
def test_any_games_name_makes_a_run_id(game):
    assert is_run_id(run_id(game, 12345))
