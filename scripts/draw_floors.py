"""Draw the floors of the house from the import contracts in pyproject.toml, and list what lives where.

    python scripts/draw_floors.py

writes docs/pictures/floors.svg and the table in docs/explanation/architecture.md; a test compares both.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/pictures/floors.svg"
PAGE = ROOT / "docs/explanation/architecture.md"
BEGIN, END = "<!-- floors: written by scripts/draw_floors.py -->", "<!-- end of floors -->"

WIDTH, FLOOR, GAP, MARGIN = 860, 44, 8, 10


def floors() -> list[list[str]]:
    """The rooms of each floor, the highest floor first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(item["layers"] for item in contracts if item["type"] == "layers")
    return [[room.strip().removeprefix("questloop.") for room in layer.split("|")] for layer in layers]


def picture() -> str:
    """The floors as SVG, a box per room."""
    parts, y = [], MARGIN
    for rooms in floors():
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        for index, room in enumerate(rooms):
            x = MARGIN + index * (width + GAP)
            parts.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{FLOOR - GAP}" rx="6"/>'
                f'<text x="{x + width / 2:.0f}" y="{y + 23}">{room}</text>'
            )
        y += FLOOR
    text = "font:14px system-ui,sans-serif;text-anchor:middle;fill:#22262d"
    style = f"rect{{fill:#f6d7bd;stroke:#b4530b}}text{{{text}}}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 2}" role="img" '
        f'aria-label="The packages of questloop by floors; each imports only from floors below">\n'
        f"<style>{style}</style>\n{body}\n</svg>\n"
    )


def table() -> str:
    """A row per room with the first line of its docstring, the highest floor first."""
    rows = ["| package | what it is |", "|---|---|"]
    for room in (room for rooms in floors() for room in rooms):
        path = ROOT / "src/questloop" / room
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        doc = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
        rows.append(f"| `{room}` | {doc.splitlines()[0]} |")
    return "\n".join(rows)


def page() -> str:
    """The page with its table as it must be."""
    around = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    return around.sub(lambda _: f"{BEGIN}\n{table()}\n{END}", PAGE.read_text("utf-8"))


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
    PAGE.write_text(page(), "utf-8")
