"""Dialogue: wrapped to the text box and cut into pages."""

import textwrap
from pathlib import Path

COLUMNS, LINES = 18, 3
CHOICE, NEWLINE, PAGE, END = 1, 10, 12, 0


def read_messages(paths: list[Path]) -> dict[str, bytes]:
    """`= name` begins a message; a blank line begins a page; `? Yes / No` as the last line asks."""
    messages: dict[str, list[str]] = {}
    for path in paths:
        lines: list[str] = []
        for line in path.read_text().splitlines():
            if line.startswith("= "):
                lines = messages.setdefault(line[2:].strip(), [])
            elif not line.startswith("# "):
                lines.append(line)
    return {name: _encode(name, lines) for name, lines in messages.items()}


def _encode(name: str, lines: list[str]) -> bytes:
    ask = bool(lines) and any(line.startswith("?") for line in lines)
    pages = "\n".join(line for line in lines if not line.startswith("?")).strip().split("\n\n")
    encoded = []
    for page in pages:
        rows = textwrap.wrap(" ".join(page.split()), COLUMNS)
        for i in range(0, len(rows), LINES):
            encoded.append("\n".join(rows[i : i + LINES]))
    if ask and encoded[-1].count("\n") > LINES - 2:
        raise SystemExit(f"message {name}: the question leaves no line for its answers")
    body = chr(PAGE).join(encoded).encode("ascii")
    return body + (bytes([CHOICE]) if ask else b"") + bytes([END])
