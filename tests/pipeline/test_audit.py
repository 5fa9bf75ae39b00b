"""A finished run, and the same run with one document that says something else and is committed so."""

import json
import shutil

import pytest

from questloop.cli.verify import only_writer
from questloop.episodes.findings import Kind
from questloop.episodes.reader import SegmentReader
from questloop.errors import BadDataError
from questloop.pipeline.audit import audit_run, rewind
from questloop.pipeline.notes import mend
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease, LeaseHeld
from questloop.storage.sealed import DIGEST
from questloop.storage.store import open_store, sha256_hex

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def run(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "store")
    return open_store(str(tmp_path / "store"))


def rewrite(store, key, change):
    """Change a document, and the commit that lists it to match: hashes are right, only the content is not.

    What seals itself loses its digest, as documents of earlier releases have none.
    """
    data = change(store.get(key))
    store.put(key, data)
    for epoch in (0, 1):
        for stage in Stage:
            place = keys.commit(epoch, stage)
            commit = unsealed(store.get(place))
            for item in commit["objects"]:
                if item["key"] == key:
                    item |= {"sha256": sha256_hex(data), "size": len(data)}
            store.put(place, json.dumps(commit).encode())


def unsealed(data):
    """A document without the digest of itself."""
    document = json.loads(data)
    document.pop(DIGEST, None)
    return document


def edit(**changed):
    return lambda data: json.dumps(unsealed(data) | changed).encode()


def edit_lines(**changed):
    return lambda data: b"".join(edit(**changed)(line) + b"\n" for line in data.splitlines())


def edit_info(**changed):
    def change(data):
        document = unsealed(data)
        return json.dumps(document | {"info": document["info"] | changed}).encode()

    return change


def found(store):
    return {(item.kind, item.key.rsplit("/", 1)[-1], item.epoch) for item in audit_run(store).findings}


def test_a_finished_run_is_whole(run):
    audit = audit_run(run)
    assert audit.findings == []
    assert audit.segments == audit.scores == 25
    assert audit.models == 4
    assert audit.first_harmed is None


def segment(store, epoch=1):
    return SegmentReader(store).list(epoch)[0]


@pytest.mark.parametrize(
    ("key", "change", "expected"),
    [
        (lambda store: keys.scores(1), edit_lines(epoch=0), (Kind.LINEAGE, "scores.jsonl", 1)),
        (lambda store: keys.scores(1), edit_lines(weighted=0.5), (Kind.LINEAGE, "summary.json", 1)),
        (lambda store: keys.scores(1), edit_lines(judges={}), (Kind.LINEAGE, "scores.jsonl", 1)),
        (lambda store: keys.scores(1), edit_lines(weighted=2),
         (Kind.BAD_DOCUMENT, "commit-evaluate.json", 1)),
        (lambda store: keys.scores(0), lambda data: data + b"\n", (Kind.LINEAGE, "rm.pt", 0)),
        (lambda store: keys.scores(0), lambda data: data + b"\n", (Kind.LINEAGE, "rm.pt", 1)),
        (lambda store: keys.cells(1), edit_lines(epoch=0), (Kind.DUPLICATE, "cells.jsonl", 1)),
        (lambda store: keys.cells(0), lambda data: data.split(b"\n", 1)[1],
         (Kind.BAD_DOCUMENT, "commit-rollouts.json", 0)),
        (lambda store: keys.cells(0), lambda _: b"{}\n", (Kind.BAD_DOCUMENT, "commit-rollouts.json", 0)),
        (lambda store: keys.cell_scores(0), edit_lines(cell_id="0" * 16),
         (Kind.LINEAGE, "scores.jsonl", 0)),
        (lambda store: keys.cell_scores(1), lambda data: 2 * data, (Kind.DUPLICATE, "scores.jsonl", 1)),
        (lambda store: keys.cell_scores(1), edit_lines(score=2),
         (Kind.BAD_DOCUMENT, "commit-evaluate.json", 1)),
        (lambda store: keys.evaluation(1), edit(epoch=0), (Kind.LINEAGE, "summary.json", 1)),
        (lambda store: keys.evaluation(1), lambda _: b"{}", (Kind.BAD_DOCUMENT, "commit-evaluate.json", 1)),
        (lambda store: keys.reward_model(1), lambda data: data[:99], (Kind.BAD_DOCUMENT, "rm.pt", 1)),
        (lambda store: keys.checkpoint(1, "state.json"), edit(files={"policy.safetensors": "0" * 64}),
         (Kind.LINEAGE, "state.json", 1)),
        (lambda store: keys.checkpoint(1, "state.json"), edit(counts={"step": 1}),
         (Kind.LINEAGE, "state.json", 1)),
        (lambda store: keys.checkpoint(1, "state.json"), lambda _: b"[]",
         (Kind.BAD_DOCUMENT, "state.json", 1)),
        (lambda store: keys.commit(1, Stage.ROLLOUTS), edit_info(segments=12),
         (Kind.BAD_DOCUMENT, "commit-rollouts.json", 1)),
        (lambda store: keys.commit(1, Stage.ROLLOUTS), edit_info(reward_model_sha256=None),
         (Kind.LINEAGE, "manifest.json", 1)),
        (lambda store: keys.commit(1, Stage.ROLLOUTS), edit(schema_version=99),
         (Kind.BAD_DOCUMENT, "commit-rollouts.json", 1)),
        (lambda store: keys.manifest(segment(store)), edit(rom_sha256="0" * 64),
         (Kind.LINEAGE, "manifest.json", 1)),
        (lambda store: keys.manifest(segment(store)), edit(schema_version=99),
         (Kind.BAD_DOCUMENT, "manifest.json", 1)),
        (lambda store: keys.run(), edit(frame_skip=7), (Kind.LINEAGE, "manifest.json", 0)),
        (lambda store: keys.run(), lambda data: data.replace(b'"created": "20', b'"created": "21'),
         (Kind.BAD_DOCUMENT, "run.json", None)),
        (lambda store: keys.run(), lambda _: b"{", (Kind.BAD_DOCUMENT, "run.json", None)),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_found(run, key, change, expected):
    rewrite(run, key(run), change)
    assert expected in found(run)


def test_a_run_without_its_document_is_not_whole(run):
    run.delete([keys.run()])
    assert (Kind.MISSING, "run.json", None) in found(run)
    assert audit_run(run).first_harmed is None


def test_the_first_harmed_epoch_is_where_to_play_again_from(run):
    run.delete([keys.manifest(segment(run, 1))])
    assert audit_run(run).first_harmed == 1
    run.delete([keys.reward_model(0)])
    assert audit_run(run).first_harmed == 0


def test_rewinding_withdraws_the_newest_first_and_leaves_a_whole_store(run):
    run.delete([keys.manifest(segment(run, 1))])
    with Lease.acquire(run, "mossgrove-s0") as lease:
        withdrawn = rewind(run, 1, lease)
    assert withdrawn == [keys.commit(1, stage) for stage in reversed(Stage)]
    assert read_commit(run, 0, Stage.REWARD_MODEL) is not None
    audit = audit_run(run)
    assert audit.ok
    assert keys.reward_model(1) in audit.orphans


def test_no_rewind_behind_a_retired_epoch(run):
    run.put(keys.retired(0), b"{}")
    with (
        Lease.acquire(run, "mossgrove-s0") as lease,
        pytest.raises(BadDataError, match="epoch 0 was retired"),
    ):
        rewind(run, 1, lease)
    assert read_commit(run, 1, Stage.ROLLOUTS) is not None


NOTES = {
    "pass": lambda store: keys.judge_pass(1),
    "judgement": lambda store: next(entry.key for entry in store.list(keys.judgements_prefix(1))),
    "judgement of a cell": lambda store: next(entry.key for entry in store.list(keys.cell_judgements())),
    "lease": lambda store: keys.lease(1),
    "heartbeat": lambda store: keys.lease_beat(1),
}


def cut_off(data):
    return data[: len(data) // 2]


def another_digit(data):
    place = next(at for at, byte in enumerate(data) if byte in b"12345678")
    return data[:place] + b"9" + data[place + 1 :]


@pytest.mark.parametrize("spoil", [cut_off, another_digit, lambda _: b"", lambda _: b"\xff"])
@pytest.mark.parametrize("what", NOTES)
def test_what_no_commit_lists_is_checked_by_its_own_digest(run, what, spoil):
    """It is named, harms no epoch, and a repair takes it away without letting a fence come free."""
    key = NOTES[what](run)
    run.put(key, spoil(run.get(key)))
    audit = audit_run(run)
    assert [(item.kind, item.key) for item in audit.findings] == [(Kind.SPOILT, key)]
    assert not audit.ok
    with Lease.acquire(run, "mossgrove-s0"):
        assert mend(run, audit_run(run)) == 1
    assert audit_run(run).findings == []
    assert run.exists(keys.lease(1))


def test_a_store_whose_newest_lease_cannot_be_read_is_repaired_by_its_writer_only(run):
    """Whatever the lease says: a pipeline that lives holds it."""
    with Lease.acquire(run, "mossgrove-s0") as lease:
        key = keys.lease(lease.fence)
        run.put(key, cut_off(run.get(key)))
        with pytest.raises(LeaseHeld), only_writer(run):
            pass
    with only_writer(run) as lease:
        assert lease is not None
