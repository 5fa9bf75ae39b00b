"""How this program was called, as a person can call it again. It imports nothing large."""

from __future__ import annotations

import os
import sys


def program() -> str:
    """`questloop`, or the path it was called by where the shell finds none or another one by that name."""
    import shlex
    import shutil

    called = sys.argv[0]
    if os.path.basename(called) != "questloop" or not os.path.exists(called):
        return "questloop"
    found = shutil.which("questloop")
    if found and os.path.samefile(found, called):
        return "questloop"
    near = os.path.relpath(called)
    return shlex.quote(os.path.abspath(called) if near.startswith(os.pardir) else near)


def again() -> str:
    """The command line as it was given."""
    import shlex

    return " ".join([program(), *map(shlex.quote, sys.argv[1:])])
