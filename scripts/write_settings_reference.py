"""Write docs/reference/settings.md from the settings themselves; a test keeps the page in step."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from questloop.cli.loop import DEMO
from questloop.settings import GROUPS, LEARNS

PAGE = Path(__file__).parents[1] / "docs/reference/settings.md"
HEAD = """# Settings

Values come, strongest first, from command-line flags, the environment, `.env` in the working folder, a TOML \
file given by `--config`, and the defaults below. Booleans take `on`/`off` or `true`/`false`. Secrets come \
from the environment or files only. A wrong value ends the command with exit code 2 and one line that names \
the variable, the value and what is allowed. So does a line of `.env` that is no NAME=value; a name there \
that is nearly a setting's is told with the nearest one. This page is written by \
`scripts/write_settings_reference.py`.
"""
LEARNS_HEAD = """## What the loop's commands set

`questloop demo`, `pipeline`, `rollouts`, `evaluate`, `reward-model` and `epoch` set these in place of the \
defaults above, since agents learn with them; the environment, `.env`, a file and flags go before them.
"""
AWS_HEAD = """## AWS_* in the environment

Other programs set these, for accounts and servers of their own.

| variable | with S3_ACCESS_KEY and S3_SECRET_KEY | without |
|---|---|---|
| `AWS_ACCESS_KEY_ID`, `AWS_SESSION_TOKEN`, `AWS_WEB_IDENTITY_TOKEN_FILE` and the like | not used \
| where the keys come from |
| `AWS_REGION`, `AWS_DEFAULT_REGION` | not used | the region, where `S3_REGION_NAME` is not set |
| `AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_S3` | not used | the address, where `S3_ENDPOINT_URL` is not set |
| `AWS_SERVER_SIDE_ENCRYPTION`, `AWS_SSE_*`, `AWS_CHECKSUM_ALGORITHM`, `AWS_REQUEST_PAYER` and others of \
[obstore](https://developmentseed.org/obstore/) | not used: the bucket's own defaults hold | used; \
a value that cannot be is one line |
| `AWS_CONDITIONAL_PUT` | not used | not used: a lease needs them |
| `AWS_CA_BUNDLE`, `AWS_PROFILE` and files below `~/.aws` | not used | not used |

One of the two keys without the other is refused. A server with a certificate of one's own is trusted by \
`SSL_CERT_FILE`, a PEM file with its CA; proxies are `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
"""
_SIGNS = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))


def page() -> str:
    """The whole page, one table a concern."""
    parts = [HEAD]
    for group in GROUPS:
        title = (group.__doc__ or "").strip().splitlines()[0].rstrip(".")
        rows = [
            f"| `{name.upper()}` | {_default(field)} | {_meaning(field)} |"
            for name, field in group.model_fields.items()
        ]
        parts.append(
            "\n".join([f"## {title}", "", "| variable | default | meaning |", "|---|---|---|", *rows, ""])
        )
    return "\n".join([*parts, AWS_HEAD, _learns()])


def _learns() -> str:
    rows = [
        f"| `{name.upper()}` | {_shown(LEARNS, name)} | {_shown(LEARNS | DEMO, name)} |"
        for name in LEARNS | DEMO
    ]
    return "\n".join([LEARNS_HEAD, "| variable | value | of `demo` |", "|---|---|---|", *rows, ""])


def _shown(preset: Mapping[str, object], name: str) -> str:
    return f"`{_plain(preset[name])}`" if name in preset else "as above"


def _plain(value: Any) -> Any:
    return ("on" if value else "off") if isinstance(value, bool) else value


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if value is None:
        return "unset"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        value = "on" if value else "off"
    return f"`{value}`"


def _meaning(field: FieldInfo) -> str:
    limits = [
        f"{sign} {getattr(item, name)}"
        for item in field.metadata
        for name, sign in _SIGNS
        if hasattr(item, name)
    ]
    return (field.description or "") + (f" ({', '.join(limits)})" if limits else "")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
