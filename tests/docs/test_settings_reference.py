"""The settings page says what the settings say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_settings_page_is_in_step():
    spec = importlib.util.spec_from_file_location("writer", ROOT / "scripts/write_settings_reference.py")
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = (ROOT / "docs/reference/settings.md").read_text("utf-8")
    assert written == writer.page(), "run: python scripts/write_settings_reference.py"
    assert "`EPOCH_STEPS` | `300000`" in written
