"""Every overlay, rendered once a session by the real Kustomize."""

import copy

import pytest
from scripts import render_manifests


@pytest.fixture(scope="session")
def rendered(tmp_path_factory):
    """Paths by name: the overlays, jobs, cluster, argocd."""
    return {path.stem: path for path in render_manifests.render_all(tmp_path_factory.mktemp("manifests"))}


@pytest.fixture(scope="session")
def _parsed(rendered):
    return {name: render_manifests.read(path) for name, path in rendered.items()}


@pytest.fixture
def documents(_parsed):
    """The documents of a rendered file, to be changed freely."""
    return lambda name: copy.deepcopy(_parsed[name])
