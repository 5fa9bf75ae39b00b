from collections import Counter

import pytest

from questloop.errors import BadDataError
from questloop.judges.scores import read_scores
from questloop.report.book import FRESH_S, RunBook
from questloop.storage import keys
from questloop.storage.commit import commit_stage, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import StoredObject
from questloop.web.segments import Order, SegmentPages


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, store):
        self._store = store
        self.asked = Counter()

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments, **named):
            self.asked[name] += 1
            return found(*arguments, **named)

        return call


def test_what_cannot_change_is_read_once(store):
    counted = Counted(store)
    clock = iter(range(0, 100000, 10))  # every listing is stale
    book = RunBook(counted, clock=lambda: next(clock))
    assert book.played()
    assert book.rows()
    assert book.scores(0)
    assert book.segments(0)
    gets = counted.asked["get"]
    assert book.played()
    assert book.rows()
    assert book.scores(0)
    assert book.segments(0)
    assert counted.asked["get"] == gets


def test_many_lookers_cost_the_store_one_listing(store):
    counted = Counted(store)
    now = [0.0]
    book = RunBook(counted, clock=lambda: now[0])
    for _ in range(50):
        book.state()
    first = counted.asked["list"]
    now[0] = FRESH_S / 2
    book.state()
    assert counted.asked["list"] == first
    now[0] = FRESH_S
    book.state()
    assert counted.asked["list"] == 2 * first


def commit_scores(store, data):
    """Put scores of epoch 0, and a commit that lists them as they are."""
    info = RunBook(store).info(0, Stage.EVALUATE)
    store.delete([keys.commit(0, Stage.EVALUATE)])
    commit_stage(store, 0, Stage.EVALUATE, 2, [store.put(keys.scores(0), data)], info)


def test_scores_are_parsed_line_by_line_and_are_those_of_the_file(store):
    found = RunBook(store).scores(0)
    every = read_scores(store, 0)
    assert dict(found) == {line.segment_id: line for line in every}
    key, broken = keys.scores(0), every[0].segment_id
    lines = store.get(key).splitlines(keepends=True)
    commit_scores(store, b"".join([lines[0].replace(b'"epoch":0', b'"epoch":"x"'), *lines[1:]]))
    found = RunBook(store).scores(0)
    assert found[every[1].segment_id] == every[1]
    with pytest.raises(BadDataError, match=r"scores\.jsonl line 1: epoch"):
        found[broken]
    commit_scores(store, b"no score\n")
    with pytest.raises(BadDataError, match=r"scores\.jsonl line 1"):
        RunBook(store).scores(0)


def test_a_new_epoch_is_seen(store):
    now = [0.0]
    book = RunBook(store, clock=lambda: now[0])
    before = book.state()
    info = dict(read_commit(store, 0, Stage.ROLLOUTS).info) | {"epoch": 1}
    commit_stage(store, 1, Stage.ROLLOUTS, 1, [], info)
    now[0] = FRESH_S
    assert book.state() != before
    assert book.epochs() == (0, 1)


def test_a_page_of_ten_thousand_segments_reads_only_what_it_shows(store):
    standing = read_commit(store, 0, Stage.ROLLOUTS)
    for epoch in range(1, 51):
        made = [
            StoredObject(
                f"zelda-episodes/r1-e{epoch:04d}-s{slot:03d}-00000/"
                f"r1-e{epoch:04d}-s{slot:03d}-00000-00000-f0001/manifest.json",
                "0" * 64,
                1,
            )
            for slot in range(200)
        ]
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, made, dict(standing.info))
    counted = Counted(store)
    pages = SegmentPages(RunBook(counted))
    ids = pages.ordered(None, Order.NEWEST)
    assert len(ids) == 10_012
    assert ids[0].startswith("r1-e0050")
    assert counted.asked["get"] <= 51, "a commit an epoch"
    assert len(pages.cards(ids[-12:])) == 12
    again = counted.asked["get"]
    assert pages.ordered(None, Order.NEWEST) == ids
    assert counted.asked["get"] == again
