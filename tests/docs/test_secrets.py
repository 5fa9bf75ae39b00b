"""No tracked file holds a key."""

import subprocess
from pathlib import Path

import pytest
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import transient_settings

ROOT = Path(__file__).parents[2]
DETECTORS = [
    *("AWSKeyDetector", "AzureStorageKeyDetector", "GitHubTokenDetector", "GitLabTokenDetector"),
    *("JwtTokenDetector", "NpmDetector", "OpenAIDetector", "PrivateKeyDetector", "PypiTokenDetector"),
    *("SlackDetector", "StripeDetector"),
]


@pytest.mark.long
def test_no_tracked_file_holds_a_key():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    assert len(files) > 100
    with transient_settings({"plugins_used": [{"name": name} for name in DETECTORS]}):
        found = [secret for file in files if file.is_file() for secret in scan_file(str(file))]
    assert [f"{secret.filename}:{secret.line_number} {secret.type}" for secret in found] == []


def test_the_scan_finds_a_key(tmp_path):
    file = tmp_path / "settings.env"
    file.write_text("-----BEGIN RSA " + "PRIVATE KEY-----\n")
    with transient_settings({"plugins_used": [{"name": name} for name in DETECTORS]}):
        assert len(list(scan_file(str(file)))) == 1
