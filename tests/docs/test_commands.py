"""Every `questloop` command in the README and the documentation exists, with every option it is given."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from questloop.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(ROOT / name for name in ("GITOPS.md", "DEPLOY_YAML.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )*questloop [^`\n]+)`")


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = [block.replace("\\\n", " ") for block in FENCED.findall(text)]
        lines = [
            line.split(" # ")[0].removeprefix("$ ").strip() for block in blocks for line in block.splitlines()
        ]
        lines += INLINE.findall(FENCED.sub("", text))
        name = str(page.relative_to(ROOT))
        found += [(name, line) for line in lines if re.match(r"(?:[A-Z_]+=\S+ )*questloop(?: |$)", line)]
    return found


FOUND = commands()
APP = typer.main.get_command(app)


def test_there_are_some():
    assert len(FOUND) > 40
    assert {"README.md", "docs/tutorial/own-rom.md", "docs/tutorial/fleet.md"} <= {page for page, _ in FOUND}


@pytest.mark.parametrize(("page", "line"), FOUND, ids=[f"{page}: {line}"[:90] for page, line in FOUND])
def test_a_command_exists_with_its_options(page, line):
    tokens = shlex.split(line)
    end = next((at for at, token in enumerate(tokens) if token in ("&&", "|", ">")), len(tokens))
    words = [word for word in tokens[:end] if "..." not in word]
    while "=" in words[0]:
        words.pop(0)
    command, path = APP, []
    for word in words[1:]:
        inner = getattr(command, "commands", {}).get(word.strip(","))
        if inner is None:
            assert not hasattr(command, "commands") or word.startswith("-"), f"no command {word} in {line!r}"
            break
        command, path = inner, [*path, word]
    if path in (["grpo"], ["grpo", "train"]):  # the options of the trainer, which tests/grpo covers
        return
    known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)} | {"--help"}
    given = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in given if word.startswith("--") and word.split("=")[0] not in known]
    assert not unknown, f"{page}: {line!r} has options that are not there"
