"""Keeps obstore usable in a forked process.

obstore runs its requests on threads that belong to the process which made the first one; in a fork of that
process every call would wait for ever. A fork therefore loads its own copy of the extension, whose threads
are its own (35 ms, once).
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

_loaded: tuple[int, ModuleType] | None = None


def obstore() -> ModuleType:
    """The `obstore` package that works in this process."""
    global _loaded
    if _loaded is None:
        _loaded = (os.getpid(), importlib.import_module("obstore"))
    elif _loaded[0] != os.getpid():
        _loaded = (os.getpid(), _fresh_copy(_loaded[1]))
    return _loaded[1]


def _fresh_copy(package: ModuleType) -> ModuleType:
    assert package.__file__ is not None
    for name in [name for name in sys.modules if name == "obstore" or name.startswith("obstore.")]:
        del sys.modules[name]
    with tempfile.TemporaryDirectory(prefix="questloop-obstore-") as folder:
        # The dynamic linker tells libraries apart by file: a copy is a second library with its own state.
        shutil.copytree(Path(package.__file__).parent, Path(folder) / "obstore")
        sys.path.insert(0, folder)
        try:
            importlib.invalidate_caches()
            fresh = importlib.import_module("obstore")
            importlib.import_module("obstore.store")
            importlib.import_module("obstore.exceptions")
        finally:
            sys.path.remove(folder)
    return fresh
