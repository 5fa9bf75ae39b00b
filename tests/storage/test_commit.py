import pytest

from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import commit_stage, committed_epochs, read_commit
from questloop.storage.keys import Stage
from questloop.storage.lease import LeaseLost
from questloop.storage.store import AlreadyExists, open_store


def test_commit_lists_what_belongs_to_the_stage(empty_store):
    assert read_commit(empty_store, 0, Stage.ROLLOUTS) is None
    objects = [empty_store.put(f"zelda-episodes/x/{name}", name.encode()) for name in "ba"]
    made = commit_stage(empty_store, 0, Stage.ROLLOUTS, 1, objects, {"steps": 300, "accuracy": None})
    read = read_commit(empty_store, 0, Stage.ROLLOUTS)
    assert read == made
    assert [item.key for item in read.objects] == ["zelda-episodes/x/a", "zelda-episodes/x/b"]
    assert (read.fence, read.schema_version, read.info["steps"]) == (1, 1, 300)
    assert read_commit(empty_store, 0, Stage.EVALUATE) is None
    assert committed_epochs(empty_store, Stage.ROLLOUTS) == (0,)
    assert committed_epochs(empty_store, Stage.EVALUATE) == ()
    commit_stage(empty_store, 12, Stage.ROLLOUTS, 1, [])
    commit_stage(empty_store, 3, Stage.ROLLOUTS, 1, [])
    assert committed_epochs(empty_store, Stage.ROLLOUTS) == (0, 3, 12)


def test_committing_the_same_again_changes_nothing(empty_store):
    stored = empty_store.put("zelda-episodes/x/a", b"")
    first = commit_stage(empty_store, 2, Stage.EVALUATE, 1, [stored])
    assert commit_stage(empty_store, 2, Stage.EVALUATE, 1, [stored]) == first


def test_another_result_is_refused(empty_store):
    stored = empty_store.put("zelda-episodes/x/a", b"")
    commit_stage(empty_store, 2, Stage.EVALUATE, 1, [stored])
    with pytest.raises(AlreadyExists):
        commit_stage(empty_store, 2, Stage.EVALUATE, 1, [])
    with pytest.raises(AlreadyExists):
        commit_stage(empty_store, 2, Stage.EVALUATE, 2, [stored])


def test_late_writer_is_refused_by_its_fence(empty_store):
    empty_store.put_if_absent(keys.lease(8), b"{}")
    with pytest.raises(LeaseLost, match="fence 7 was taken over"):
        commit_stage(empty_store, 0, Stage.ROLLOUTS, 7, [])
    assert read_commit(empty_store, 0, Stage.ROLLOUTS) is None


def test_json_holds_no_nan(tmp_path):
    store = open_store(str(tmp_path))
    with pytest.raises(ValueError, match=r"not JSON compliant|finite"):
        commit_stage(store, 0, Stage.ROLLOUTS, 1, [], {"accuracy": float("nan")})
    assert list(store.list()) == []


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a commit"),
        (b'{"epoch": 0', "not a commit"),
        (b'{"epoch": 0, "stage": "rollouts", "fence": 1}', "created: Field required"),
        (b"\xff\xfe", "not a commit"),
        (
            b'{"schema_version": 99, "epoch": 0, "stage": "rollouts", "fence": 1, '
            b'"created": "2026-01-01T00:00:00Z", "objects": []}',
            "schema version 99 is newer",
        ),
    ],
)
def test_damaged_commit_is_named(tmp_path, data, says):
    store = open_store(str(tmp_path))
    store.put(keys.commit(0, Stage.ROLLOUTS), data)
    with pytest.raises(BadDataError, match=f"commit-rollouts.json: .*{says}"):
        read_commit(store, 0, Stage.ROLLOUTS)
