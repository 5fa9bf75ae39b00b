"""Small documents that carry their own SHA-256, so that a changed digit in one is noticed.

What a commit lists it also hashes. A run, a commit itself, a lease, a pass and a judgement are listed by
nothing: each holds, as `digest`, the SHA-256 of its other fields in canonical JSON. One without a digest was
written by an earlier release and is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from pydantic import BaseModel

DIGEST = "digest"

Document = TypeVar("Document", bound=BaseModel)


def seal(document: BaseModel, indent: int | None = None) -> bytes:
    """`document` as JSON with its digest and a final newline; `ValueError` for a NaN or an infinity."""
    fields = document.model_dump(mode="json")
    fields[DIGEST] = _digest(fields)
    separators = (",", ":") if indent is None else None
    return json.dumps(fields, indent=indent, separators=separators, allow_nan=False).encode() + b"\n"


def unseal(data: bytes, model: type[Document]) -> Document:
    """The document in `data`; `ValueError` where it is none, was cut off or was changed.

    pydantic's `ValidationError` is a `ValueError` too.
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    digest = fields.pop(DIGEST, None)
    if digest is not None and digest != _digest(fields):
        raise ValueError("it was changed since it was written")
    return model.model_validate(fields)


def _digest(fields: dict[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
