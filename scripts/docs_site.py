"""Build the documentation as a site: the pages of docs/, those at the root, and the API from docstrings.

    python scripts/docs_site.py            # build/site
    python scripts/docs_site.py --check    # broken links and orphans only, in a second

A link in a page may go anywhere in the repository, as it does on the forge. One to another page is turned to
where that page is on the site, one to a file that is no page stays as text. A link that leads nowhere, an
anchor that no heading has, and a page that the navigation leaves out are errors.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
STAGED = ROOT / "build" / "docs"
FROM_ROOT = {
    "README.md": "about.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "GITOPS.md": "gitops.md",
    "DEPLOY_YAML.md": "deploy-yaml.md",
    "docs/README.md": "index.md",
}
"""Pages whose place on the site is not their path below docs/."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def main() -> int:
    """Check, and build unless only the check is asked for; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="links and navigation only")
    arguments = parser.parse_args()
    wrong = list(faults())
    for fault in wrong:
        print(f"error: {fault}", file=sys.stderr)
    if wrong or arguments.check:
        return int(bool(wrong))
    config = stage()
    command = [Path(sys.executable).with_name("zensical"), "build", "--strict", "-f", config]
    return subprocess.run(list(map(str, command)), cwd=ROOT, check=False).returncode


def pages() -> dict[str, str]:
    """Where each page is on the site, by its path in the repository."""
    below = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))
    return {path: path.removeprefix("docs/") for path in below} | FROM_ROOT


def packages() -> list[str]:
    """The packages below questloop, in the order of the folder list."""
    return sorted(path.parent.name for path in (ROOT / "src/questloop").glob("*/__init__.py"))


def faults() -> Iterator[str]:
    """What is wrong with links and navigation, a line each."""
    known = pages()
    listed = set(_leaves(_config()["nav"]))
    for path, place in known.items():
        if place not in listed:
            yield f"{path}: an orphan, mkdocs.yml does not list it as {place}"
        for target in _targets((ROOT / path).read_text("utf-8")):
            where, _, anchor = target.partition("#")
            meant = posixpath.normpath(posixpath.join(posixpath.dirname(path), where)) if where else path
            if not (ROOT / meant).exists():
                yield f"{path}: {target} leads nowhere"
            elif anchor and meant in known and anchor not in _anchors(meant):
                yield f"{path}: no heading of {meant} is #{anchor}"
    for place in sorted(listed - set(known.values())):
        yield f"mkdocs.yml lists {place}, which is no page"


def stage() -> Path:
    """Write the pages and the configuration as the generator takes them; returns the configuration's path."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED, ignore=shutil.ignore_patterns("*.md"))
    for path, place in pages().items():
        target = STAGED / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_turned((ROOT / path).read_text("utf-8"), path, place), "utf-8")
    (STAGED / "api").mkdir()
    for name in packages():
        (STAGED / "api" / f"{name}.md").write_text(_api_page(name), "utf-8")
    config = _config()
    config["nav"].append({"API": [{name: f"api/{name}.md"} for name in packages()]})
    config |= {"docs_dir": "docs", "site_dir": "site"}
    path = STAGED.parent / "site.yml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return path


def _config() -> dict:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


def _leaves(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict | list):
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from _leaves(item)


def _targets(markdown: str) -> list[str]:
    found = (match[3] for match in _LINK.finditer(_FENCE.sub("", markdown)))
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]


def _anchors(path: str) -> set[str]:
    headings = _HEADING.findall(_FENCE.sub("", (ROOT / path).read_text("utf-8")))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()) for text in plain}


def _turned(markdown: str, path: str, place: str) -> str:
    """The page with its links as the site has them."""
    known = pages()

    def turned(found: re.Match[str]) -> str:
        picture, text, target = found.groups()
        where, _, anchor = target.partition("#")
        if not where or "://" in target or target.startswith("mailto:"):
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(path), where))
        there = known.get(meant) or (meant.removeprefix("docs/") if picture else None)
        if there is None:
            return text
        link = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"{picture}[{text}]({link}{'#' + anchor if anchor else ''})"

    return _LINK.sub(turned, markdown)


def _api_page(name: str) -> str:
    """A package's page: its docstring, and every module of it."""
    folder = ROOT / "src/questloop" / name
    modules = sorted(
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for path in folder.rglob("*.py")
        if path.name != "__init__.py" and "migrations" not in path.parts
    )
    intro = (folder / "__init__.py").read_text("utf-8").split('"""')[1]
    return "\n\n".join([f"# questloop.{name}", intro, *(f"::: {module}" for module in modules)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
