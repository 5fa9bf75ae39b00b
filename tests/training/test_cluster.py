"""What a person sees while Ray and its runners start."""

import os
import sys

import pytest

from questloop.training.cluster import quiet_stderr


def test_progress_is_seen_while_rays_core_is_kept_quiet(capfd):
    with quiet_stderr():
        os.write(2, b"a warning of the core\n")
        print("the bar", file=sys.stderr)
    print("after", file=sys.stderr)
    assert capfd.readouterr().err == "the bar\nafter\n"


def test_what_the_core_said_is_shown_where_it_failed(capfd):
    def fail():
        os.write(2, b"why\n")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), quiet_stderr():
        fail()
    assert capfd.readouterr().err == "why\n"
