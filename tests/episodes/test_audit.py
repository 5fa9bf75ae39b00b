"""Audits of a store with two committed epochs, and of the same store with one thing wrong."""

import json
import shutil
from dataclasses import replace

import pytest
from tests.episodes.conftest import cut

from questloop.episodes.audit import audit, remove_orphans
from questloop.episodes.epoch_export import EpochExport
from questloop.episodes.exporter import Exporter
from questloop.episodes.findings import Kind
from questloop.episodes.reader import SegmentReader
from questloop.episodes.retention import retire_epochs, retired_epochs
from questloop.storage import keys
from questloop.storage.commit import commit_stage, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import open_store, sha256_hex

CUT = 380
MODEL = b"weights"


def play(store, recorder, recording, trace, **exporter):
    export = EpochExport(
        store, recorder, Exporter(store, recording, **exporter), budget="all", epoch_steps=1400, seed=0
    )
    export.add(trace)
    return export.close().objects


@pytest.fixture(scope="module")
def folder(tmp_path_factory, played, make_recorder, recording):
    """Two epochs: segments, scores and a reward model of the first; the second is shaped by it."""
    folder = tmp_path_factory.mktemp("run") / "store"
    store = open_store(str(folder))
    first = make_recorder()
    objects = play(store, first, recording, cut(played, 0, CUT))
    checkpoint = store.put(keys.checkpoint(0, "state.json"), b"{}")
    commit_stage(store, 0, Stage.ROLLOUTS, 1, [*objects, checkpoint], {"step_start": 0, "step_end": 760})
    scored = [item.key.split("/")[2] for item in objects if item.key.endswith("manifest.json")]
    lines = "".join(json.dumps({"segment_id": name}) + "\n" for name in scored)
    scores = store.put(keys.scores(0), lines.encode())
    summary = store.put(keys.evaluation(0), b"{}")
    commit_stage(store, 0, Stage.EVALUATE, 1, [scores, summary])
    model = store.put(keys.reward_model(0), MODEL)
    commit_stage(store, 0, Stage.REWARD_MODEL, 1, [model])
    second = make_recorder(epoch=1, fence=2)
    second.load_state_dict(first.state_dict())
    shaped = replace(recording, reward_model_sha256=sha256_hex(MODEL))
    objects = play(store, second, shaped, cut(played, CUT, 700))
    checkpoint = store.put(keys.checkpoint(1, "state.json"), b"{}")
    commit_stage(store, 1, Stage.ROLLOUTS, 2, [*objects, checkpoint], {"step_start": 760, "step_end": 1400})
    return folder


@pytest.fixture
def run(folder, store, tmp_path):
    """A copy of that store."""
    shutil.copytree(folder, tmp_path / "store", dirs_exist_ok=True)
    return store


def segment_ids(store, epoch):
    listed = read_commit(store, epoch, Stage.ROLLOUTS).listed
    return sorted(key.split("/")[2] for key in listed if key.endswith("manifest.json"))


def kinds(found):
    return {(finding.kind, finding.key.rsplit("/", 1)[-1]) for finding in found.findings}


def test_a_store_that_is_well(run):
    told = []
    found = audit(run, lambda done, total: told.append((done, total)))
    assert found.findings == []
    assert found.ok
    assert found.to_json() | {"findings": None} == {
        "segments": 4,
        "scores": 2,
        "models": 3,
        "orphans": 0,
        "missing": 0,
        "bad_hashes": 0,
        "duplicates": 0,
        "bad_documents": 0,
        "lineage": 0,
        "spoilt": 0,
        "ok": True,
        "findings": None,
    }
    assert told[-1][0] == told[-1][1]


@pytest.mark.integration
def test_the_same_on_s3(s3_server, played, make_recorder, recording):
    store = open_store(s3_server.settings("s3://one/audit"))
    objects = play(store, make_recorder(), recording, played)
    commit_stage(store, 0, Stage.ROLLOUTS, 1, objects)
    store.delete([objects[0].key])
    assert kinds(audit(store)) >= {(Kind.MISSING, "manifest.json")}


def test_an_empty_store_is_well(store):
    assert audit(store).ok


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (lambda store: keys.manifest(segment_ids(store, 0)[0]), (Kind.BAD_HASH, "manifest.json")),
        (
            lambda store: keys.segment_file(segment_ids(store, 1)[0], "states.jsonl"),
            (Kind.BAD_HASH, "states.jsonl"),
        ),
        (lambda store: keys.episode_record("r1-e0000-s001-00000"), (Kind.BAD_DOCUMENT, "episode.json")),
        (lambda store: keys.scores(0), (Kind.BAD_HASH, "scores.jsonl")),
        (lambda store: keys.reward_model(0), (Kind.BAD_HASH, "rm.pt")),
        (lambda store: keys.checkpoint(1, "state.json"), (Kind.BAD_HASH, "state.json")),
        (lambda store: keys.commit(0, Stage.EVALUATE), (Kind.BAD_DOCUMENT, "commit-evaluate.json")),
    ],
)
def test_what_was_changed_is_found(run, key, expected):
    run.put(key(run), run.get(key(run))[:-9])
    found = audit(run)
    assert expected in kinds(found)
    assert not found.ok


@pytest.mark.parametrize(
    "key",
    [
        lambda store: keys.manifest(segment_ids(store, 0)[0]),
        lambda store: keys.segment_file(segment_ids(store, 1)[0], "observations.npz"),
        lambda store: keys.segment_file(segment_ids(store, 0)[0], "frames/000010.png"),
        lambda store: keys.episode_record("r1-e0000-s001-00000"),
        lambda store: keys.scores(0),
        lambda store: keys.reward_model(0),
        lambda store: keys.checkpoint(0, "state.json"),
        lambda store: keys.commit(0, Stage.ROLLOUTS),
    ],
)
def test_what_is_gone_is_missing(run, key):
    gone = key(run)
    run.delete([gone])
    found = audit(run)
    assert not found.ok
    assert found.to_json()["missing"] >= 1 or "commit" in gone


def test_what_a_killed_stage_left_is_an_orphan(run, played, make_recorder, recording):
    before = {entry.key for entry in run.list()}
    play(run, make_recorder(epoch=2, fence=3), recording, cut(played, 0, 320))
    run.put(keys.reward_model(1), b"half done")
    found = audit(run)
    assert found.ok
    new = {entry.key for entry in run.list()} - before
    assert set(found.orphans) == new
    assert found.to_json()["orphans"] == len(new) > 30
    assert remove_orphans(run, found) == len(new)
    assert {entry.key for entry in run.list()} == before
    assert audit(run).findings == []


def test_a_running_epoch_writes_records_of_committed_episodes_again(run, played, make_recorder, recording):
    """The second epoch was killed before its commit; the first one's episodes are not damaged."""
    run.delete([keys.commit(1, Stage.ROLLOUTS)])
    found = audit(run)
    assert found.ok
    assert {key.split("/")[2][-5:] for key in found.orphans if key.endswith("manifest.json")} == {"f0002"}


def test_files_of_others_are_left_alone(run):
    others = [
        "zelda-episodes/readme.txt",
        "zelda-models/zelda_videos/a.mp4",
        "zelda-episodes/scores/epoch_0/pass.json",
        "zelda-episodes/scores/judgements/state/abc/def.json",
        "zelda-models/checkpoints/mine/policy.pt",
        keys.progress(),
        "else/where",
    ]
    for key in others:
        run.put(key, b"")
    assert audit(run).findings == []


def test_the_same_segment_twice(run):
    """Two writers' segments of one place, both committed."""
    segment_id = segment_ids(run, 1)[0]
    twin = segment_id.replace("f0002", "f0003")
    document = json.loads(run.get(keys.manifest(segment_id))) | {"segment_id": twin, "fence": 3, "epoch": 2}
    for file in document["files"]:
        run.put(keys.segment_file(twin, file["name"]), run.get(keys.segment_file(segment_id, file["name"])))
    stored = run.put(keys.manifest(twin), json.dumps(document).encode())
    commit_stage(run, 2, Stage.ROLLOUTS, 3, [stored], {"step_start": 1400})
    found = audit(run)
    assert found.to_json()["duplicates"] == 1
    assert not found.ok


def test_scores_that_do_not_add_up(store, run):
    lines = run.get(keys.scores(0)).splitlines(keepends=True)
    stored = run.put(keys.scores(1), lines[0] + lines[0])
    commit_stage(run, 1, Stage.EVALUATE, 2, [stored])
    found = audit(run)
    assert found.to_json()["duplicates"] == 1
    assert "is not of epoch 1" in next(item.detail for item in found.findings if item.kind is Kind.LINEAGE)


def test_takeovers_out_of_place_are_found(run):
    key = keys.episode_record("r1-e0000-s001-00000")
    record = json.loads(run.get(key))
    takeover = {"mode": "dialog", "room": "0:1f", "steps": 5, "outcome": "solved", "plans": []}
    for firsts, expected in ([[3, 8], []], [[3, 7], ["3", "7"]], [[record["steps"] - 4], ["end"]]):
        record["takeovers"] = [takeover | {"first_step": first} for first in firsts]
        data = json.dumps(record).encode()
        run.put(key, data)
        commit = json.loads(run.get(keys.commit(1, Stage.ROLLOUTS)))
        for item in commit["objects"]:
            if item["key"] == key:
                item |= {"sha256": sha256_hex(data), "size": len(data)}
        commit.pop("digest", None)
        run.put(keys.commit(1, Stage.ROLLOUTS), json.dumps(commit).encode())
        found = [finding.detail for finding in audit(run).findings]
        assert len(found) == bool(expected), found
        assert all("out of place" in detail for detail in found)


def test_steps_that_do_not_follow(run):
    commit_stage(run, 2, Stage.ROLLOUTS, 2, [], {"step_start": 1399})
    assert "it begins at step 1399, the epoch before it ended at 1400" in audit(run).findings[0].detail


def test_a_reward_model_from_nowhere(store, played, make_recorder, recording):
    objects = play(
        store, make_recorder(), replace(recording, reward_model_sha256="0" * 64), cut(played, 0, 310)
    )
    commit_stage(store, 0, Stage.ROLLOUTS, 1, objects)
    assert audit(store).to_json()["lineage"] == 2


# Retention


def test_old_epochs_are_retired(run):
    assert retire_epochs(run, 0) == ()
    assert retire_epochs(run, 2) == ()
    gone = segment_ids(run, 0)
    assert len(SegmentReader(run).episodes(0)) == 2
    films = {keys.film(epoch, name) for epoch in (0, 1) for name in ("best", "grid")}
    for key in films:
        run.put(key, b"a film")
    assert retire_epochs(run, 1) == (0,)
    assert retired_epochs(run) == {0}
    assert SegmentReader(run).list(0) == SegmentReader(run).episodes(0) == ()
    left = {entry.key for entry in run.list()}
    assert not any(segment in key for segment in gone for key in left)
    assert keys.checkpoint(0, "state.json") not in left
    assert films - left == {keys.film(0, "grid")}
    assert keys.replays(0) in left
    assert {keys.scores(0), keys.reward_model(0), keys.evaluation(0), keys.checkpoint(1, "state.json")} < left
    assert keys.episode_record("r1-e0000-s001-00000") in left  # the second epoch went on with it
    found = audit(run)
    assert found.findings == []
    assert found.segments == 2
    assert retire_epochs(run, 1) == ()


def test_a_retirement_that_was_cut_off_goes_on(run, monkeypatch):
    real, calls = type(run).delete, []

    def dying(self, names):
        calls.append(names)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(self, names)

    monkeypatch.setattr(type(run), "delete", dying)
    with pytest.raises(KeyboardInterrupt):
        retire_epochs(run, 1)
    monkeypatch.undo()
    found = audit(run)
    assert found.ok
    assert found.orphans
    assert retire_epochs(run, 1) == (0,)
    assert audit(run).findings == []
