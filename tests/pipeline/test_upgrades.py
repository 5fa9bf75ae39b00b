"""A store that version 0.1.0 wrote still opens. Policy, moments and curiosity are left out for their size."""

import tarfile
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from questloop.episodes.reader import SegmentReader
from questloop.episodes.run import read_run
from questloop.judges import labels, pairwise
from questloop.judges.scores import read_scores
from questloop.pipeline.audit import audit_run
from questloop.report.table import rows
from questloop.storage import keys
from questloop.storage.lease import Lease
from questloop.storage.store import open_store

pytestmark = pytest.mark.slow

LEFT_OUT = {keys.checkpoint(0, f"{name}.safetensors") for name in ("policy", "optimizer", "curiosity")}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(Path(__file__).parent / "store-0.1.0.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return open_store(str(folder / "store"))


def test_all_of_it_is_read_and_belongs_together(store):
    audit = audit_run(store)
    assert {finding.key for finding in audit.findings} == LEFT_OUT
    assert (audit.segments, audit.scores, audit.models) == (4, 4, 2)


def test_readers_take_it(store):
    assert read_run(store).run == "mossgrove-s0"
    reader = SegmentReader(store)
    for segment_id in reader.list(0):
        view = reader.load(segment_id)
        view.check()
        assert view.states[0]["state"]
    assert len(reader.episodes(0)) == 7
    assert all(line.weighted is not None for line in read_scores(store, 0))
    assert rows(store)[0].steps == 256


def test_its_lease_is_followed(store):
    with Lease.acquire(store, "mossgrove-s0") as lease:
        assert lease.fence == 2


LOADED = labels, pairwise  # their models are among the subclasses


def documents(parent=BaseModel):
    """Every model of questloop that the store keeps with a version."""
    for each in parent.__subclasses__():
        if each.__module__.startswith("questloop.") and "schema_version" in each.model_fields:
            yield each
        yield from documents(each)


def test_what_a_newer_release_wrote_is_refused():
    found = {each.__name__: each for each in documents()}
    assert found.keys() >= {
        *("Run", "Commit", "Manifest", "EpisodeRecord", "Holder", "Beat"),
        *("PassRecord", "SegmentScores", "Summary", "Label", "Preference"),
    }
    for document in found.values():
        for version, says in ((99, "newer than this release"), (0, "greater than or equal to 1")):
            with pytest.raises(ValidationError, match=says):
                document.model_validate({"schema_version": version})
