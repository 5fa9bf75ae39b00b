"""Every example in the room's docstrings runs."""

import doctest
import importlib

import pytest

MODULES = (
    "judge_recipe",
    "text",
    "rewards",
    "judge_rewards",
    "scoring",
    "data",
    "pipelines",
    "checkpoints",
    "callbacks",
    "judge_data",
    "gguf",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    result = doctest.testmod(importlib.import_module(f"questloop.grpo.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
