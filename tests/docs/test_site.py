"""The documentation as a site: it builds without a warning, no link is broken, no page an orphan."""

import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(questloop(?:\.\w+){2,})`")


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site():
    return script("docs_site")


def test_no_link_is_broken_and_no_page_an_orphan(site):
    assert list(site.faults()) == []


def test_a_broken_link_a_missing_heading_and_an_orphan_are_found(site, monkeypatch, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# A\n[b](b.md) [c](gone.md) [d](b.md#no)\n```\n[e](gone.md)\n```\n")
    (tmp_path / "docs/b.md").write_text("# B\n## Two words, and more\n[up](#two-words-and-more)\n")
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - A: a.md\n  - Gone: c.md\n")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "FROM_ROOT", {})
    assert list(site.faults()) == [
        "docs/a.md: gone.md leads nowhere",
        "docs/a.md: no heading of docs/b.md is #no",
        "docs/b.md: an orphan, mkdocs.yml does not list it as b.md",
        "mkdocs.yml lists c.md, which is no page",
    ]


@pytest.mark.slow
def test_the_site_builds_without_a_warning():
    done = subprocess.run(
        [sys.executable, "scripts/docs_site.py"], cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    page = (ROOT / "build/site/api/storage/index.html").read_text("utf-8")
    assert "commit_stage" in page, "the API reference, from docstrings"
    assert (ROOT / "build/site/explanation/architecture/index.html").exists()
    for found in (ROOT / "build/site/index.html").read_text("utf-8").split('src="')[1:]:
        assert not found.startswith("http"), "a page asks no other host for anything"


def test_the_floors_are_drawn_from_the_contracts():
    draw = script("draw_floors")
    assert draw.PICTURE.read_text("utf-8") == draw.picture(), "run scripts/draw_floors.py"
    assert draw.PAGE.read_text("utf-8") == draw.page(), "run scripts/draw_floors.py"


@pytest.mark.parametrize("page", ["architecture", "learning"])
def test_every_function_that_a_page_walks_through_exists(page):
    names = NAMED.findall((ROOT / f"docs/explanation/{page}.md").read_text("utf-8"))
    assert len(names) > 10
    for name in names:
        assert pkgutil.resolve_name(name) is not None
