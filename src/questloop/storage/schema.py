"""Schema versions of the store's documents; what a newer release wrote is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

NEWEST = 1


def check_version(version: int) -> int:
    """`version`, or `ValueError` where this release does not read it."""
    if version > NEWEST:
        raise ValueError(f"schema version {version} is newer than this release reads; upgrade questloop")
    return version


SchemaVersion = Annotated[int, Field(ge=1), AfterValidator(check_version)]
"""The type of `schema_version`. A document without one is of version 1."""
