"""A Griffe extension: doctests of a docstring become its examples, so that the site shows them as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^|\n\n)((?:>>>.*(?:\n(?!\n).*)*(?:\n\n(?=>>>))?)+)")


class Doctests(griffe.Extension):
    """Puts the paragraphs that begin with `>>>` under `Examples:`, as Google's style has them."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = _DOCTEST.sub(_as_examples, obj.docstring.value)


def _as_examples(found: re.Match[str]) -> str:
    lines = "\n".join(f"    {line}" if line else "" for line in found[1].splitlines())
    return f"\n\nExamples:\n{lines}\n"
