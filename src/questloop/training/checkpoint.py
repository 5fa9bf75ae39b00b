"""Checkpoints from which a run resumes exactly, in formats that cannot run code.

`policy.safetensors`, `optimizer.safetensors`, `curiosity.safetensors` and `slots.safetensors` hold arrays,
`state.json` everything else. They are read into a freshly built algorithm. RLlib's own checkpoint directory
is written beside them for its tools and never read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import read_result
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, Store, StoredObject, sha256_hex

SCHEMA_VERSION = 1
STATE = "state.json"
_FILES = ("policy", "optimizer", "curiosity", "slots")
_ARRAY = "$array"

Arrays = dict[str, NDArray[Any]]


@dataclass
class Checkpoint:
    """What a run is at the end of an epoch."""

    observation_version: str
    policy: Arrays
    optimizer: Arrays
    curiosity: Arrays
    slots: Any  # nested state of every runner's slots: arrays and JSON values
    counts: dict[str, Any] = field(default_factory=dict)  # JSON values


def write_checkpoint(store: Store, epoch: int, checkpoint: Checkpoint) -> list[StoredObject]:
    """Write the files of `checkpoint`, `state.json` last; returns all of them.

    Raises `BadDataError` naming the array where a weight is not finite: no run could go on from it.
    """
    for group in ("policy", "optimizer", "curiosity"):
        _require_finite(f"{keys.checkpoint_prefix(epoch)}: {group}", getattr(checkpoint, group))
    slots, slot_tree = flatten(checkpoint.slots)
    groups = {
        "policy": checkpoint.policy,
        "optimizer": checkpoint.optimizer,
        "curiosity": checkpoint.curiosity,
        "slots": slots,
    }
    written = [
        store.put(keys.checkpoint(epoch, f"{name}.safetensors"), save(_contiguous(arrays)), durable=True)
        for name, arrays in groups.items()
    ]
    state = {
        "schema_version": SCHEMA_VERSION,
        "epoch": epoch,
        "observation_version": checkpoint.observation_version,
        "files": {item.key.rsplit("/", 1)[1]: item.sha256 for item in written},
        "counts": checkpoint.counts,
        "slots": slot_tree,
    }
    document = json.dumps(state, allow_nan=False, indent=1).encode()
    return [*written, store.put(keys.checkpoint(epoch, STATE), document, durable=True)]


def read_checkpoint(store: Store, epoch: int, *versions: str) -> Checkpoint:
    """The checkpoint of `epoch`, of one of the observation `versions`.

    Raises `BadDataError` where it is missing, cut off, changed, or of another observation layout.
    """
    where = f"{store.url.rstrip('/')}/{keys.checkpoint_prefix(epoch)}"
    try:
        state = json.loads(read_result(store, epoch, Stage.ROLLOUTS, keys.checkpoint(epoch, STATE)))
        found = state["observation_version"]
        if found not in versions:
            raise BadDataError(
                f"{where} was trained on observation version {found}, this is {versions[0]}: "
                "set OBSERVATION, AIMS and HINT_INTERVAL as they were, start a new run, or go on with the "
                "release that wrote it"
            )
        if state["schema_version"] > SCHEMA_VERSION:
            raise BadDataError(
                f"{where}: schema version {state['schema_version']} is newer than this release reads; "
                "upgrade questloop"
            )
        blobs = {name: _read(store, epoch, f"{name}.safetensors", state["files"]) for name in _FILES}
        arrays = {name: load(blob) for name, blob in blobs.items()}
        return Checkpoint(
            found,
            arrays["policy"],
            arrays["optimizer"],
            arrays["curiosity"],
            unflatten(arrays["slots"], state["slots"]),
            state["counts"],
        )
    except NotFound as error:
        raise BadDataError(f"{where} is missing or incomplete: {error}; {_remedy(epoch)}") from None
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise BadDataError(f"{where}: {STATE} cannot be read ({error}); {_remedy(epoch)}") from None


def export_rllib(store: Store, epoch: int, algorithm: Any) -> list[StoredObject]:
    """RLlib's checkpoint directory, for `Algorithm.from_checkpoint` in a notebook (it holds pickles)."""
    with TemporaryDirectory() as folder:
        algorithm.save_to_path(folder)
        return [
            store.put(keys.checkpoint(epoch, path.relative_to(folder).as_posix()), path.read_bytes())
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        ]


def _read(store: Store, epoch: int, name: str, digests: Mapping[str, str]) -> bytes:
    key = keys.checkpoint(epoch, name)
    data = store.get(key)
    if sha256_hex(data) != digests[name]:
        raise BadDataError(f"{key}: cut off or changed since it was written; {_remedy(epoch)}")
    return data


def _remedy(epoch: int) -> str:
    return f"play epoch {epoch} again after `questloop verify --rewind {epoch}`"


def _require_finite(where: str, arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadDataError(
                f"{where}.{name} is not finite, so it is not written: training diverged in this epoch; "
                "lower LR, or run the same command again"
            )


def flatten(tree: Any) -> tuple[Arrays, Any]:
    """Split nested dicts and lists into arrays by path and a JSON tree that refers to them.

    An array that holds one text becomes that text.
    """
    arrays: Arrays = {}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, np.ndarray) and node.dtype.kind == "U":
            return node.item()
        if isinstance(node, np.ndarray):
            arrays[path] = node
            return {_ARRAY: path}
        if isinstance(node, Mapping):
            return {str(key): walk(value, f"{path}/{key}") for key, value in node.items()}
        if isinstance(node, (list, tuple)):
            return [walk(value, f"{path}/{i}") for i, value in enumerate(node)]
        if isinstance(node, np.generic):
            return node.item()
        return node

    return arrays, walk(tree, "")


def unflatten(arrays: Arrays, tree: Any) -> Any:
    """The inverse of `flatten`; tuples come back as lists."""
    if isinstance(tree, dict):
        if set(tree) == {_ARRAY}:
            return arrays[tree[_ARRAY]]
        return {key: unflatten(arrays, value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [unflatten(arrays, value) for value in tree]
    return tree


def _contiguous(arrays: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
