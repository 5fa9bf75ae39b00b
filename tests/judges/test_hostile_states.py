"""Judges of cells and of pairs, before a server that misbehaves in a random mixture of ways."""

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judges.play import infos, world
from tests.judges.test_cells import cells
from tests.serving.hostile import DIALECTS, Act, hostile

from questloop.errors import UnavailableError
from questloop.judges.cells import CellBook, CellPass, read_book
from questloop.judges.pairwise import PairPass, Preference
from questloop.llm.client import ChatClient
from questloop.llm.retry import RetryPolicy
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.store import open_store

PLAYED = world(episodes=2, segments=2)
SLOW = {Act.HANG, Act.DRIP, Act.STORM, Act.BUSY}
"""of these `test_hostile_pass` has a test each"""


def prompt_of(body):
    return json.dumps([body["model"], body["messages"]])


def answer(body, index):
    score = hashlib.sha256(prompt_of(body).encode()).digest()[0] / 255
    return {"reason": "r", "overall": round(score, 3)}


def misbehaving(mixture):
    """The act of a prompt by its order of arrival; beyond the mixture the server is well."""
    seen = {}

    def act(body, index, attempt):
        number = seen.setdefault(prompt_of(body), len(seen))
        return mixture[number] if number < len(mixture) else Act.GOOD

    return act


async def ask_cells(store, server, epoch=0, earlier=None):
    async with client_of(server) as client:
        work = store, epoch, client, JudgeSettings()
        judging = CellPass(*work, announce=lambda _: None, cells=cells(6), earlier=earlier or CellBook())
        await judging.run()


async def ask_pairs(store, server):
    async with client_of(server) as client:
        comparing = PairPass(store, 0, client, JudgeSettings(), announce=lambda _: None)
        await comparing.run(infos(PLAYED), PLAYED.__getitem__, 4)


def client_of(server):
    values = {"llm_endpoint": server.url, "llm_concurrency": 1}
    return ChatClient(LLMSettings(**values), retry=RetryPolicy(max_attempts=2, base_s=0.01, cap_s=0.02))


def scores(book):
    return {line.cell_id: line.score for line in book.scores}


def preferences(store):
    lines = store.get(keys.preferences(0)).splitlines()
    return {(each.a, each.b): each.p for each in map(Preference.model_validate_json, lines)}


def one_line(error):
    assert "\n" not in str(error)
    assert "same command" in str(error)


MIXTURE = st.lists(st.sampled_from(sorted(set(Act) - SLOW)), max_size=8)
REFUSES = st.sets(st.sampled_from(sorted(set(DIALECTS) - {"seed"})))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(mixture=MIXTURE, refuses=REFUSES, supports_n=st.booleans())
async def test_cells_get_the_scores_of_an_undisturbed_pass_or_none_yet(
    tmp_path_factory, mixture, refuses, supports_n
):
    """What a pass ends without is asked for by the next one."""
    folder = tmp_path_factory.mktemp("cells")
    store, right = open_store(str(folder / "a")), open_store(str(folder / "b"))
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await ask_cells(right, server)
    expected = scores(read_book(right, 0))
    options = {"refuses": frozenset(refuses), "supports_n": supports_n}
    async with hostile(misbehaving(mixture), answer, **options) as server:
        try:
            await ask_cells(store, server)
        except UnavailableError as error:
            one_line(error)
            assert not store.exists(keys.cell_scores(0))
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        if store.exists(keys.cell_scores(0)):
            assert scores(read_book(store, 0)).items() <= expected.items()
            await ask_cells(store, server, 1, read_book(store, 0))
            assert scores(read_book(store, 1)) == expected
        else:
            await ask_cells(store, server)
            assert read_book(store, 0).scores == read_book(right, 0).scores
            assert read_book(store, 0).pairs == read_book(right, 0).pairs


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(mixture=MIXTURE, refuses=REFUSES, supports_n=st.booleans())
async def test_pairs_get_the_preferences_of_an_undisturbed_pass_or_none_yet(
    tmp_path_factory, mixture, refuses, supports_n
):
    folder = tmp_path_factory.mktemp("pairs")
    store, right = open_store(str(folder / "a")), open_store(str(folder / "b"))
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await ask_pairs(right, server)
    expected = preferences(right)
    options = {"refuses": frozenset(refuses), "supports_n": supports_n}
    async with hostile(misbehaving(mixture), answer, **options) as server:
        try:
            await ask_pairs(store, server)
        except UnavailableError as error:
            one_line(error)
            assert not store.exists(keys.preferences(0))
        else:
            for pair, p in preferences(store).items():
                assert p in (None, expected[pair])
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await ask_pairs(store, server)
    assert preferences(store) == expected
