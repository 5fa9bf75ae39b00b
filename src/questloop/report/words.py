"""What keys are called where a person reads them: settings, parts of the reward, figures of judges.

Terminal, report and dashboard all take their words from here. Those of settings are their descriptions, so
that nothing is said twice.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from questloop.settings import GROUPS

OUTCOMES = {
    "running": "unfinished",
    "terminated": "game ended it",
    "truncated": "time was up",
    "abandoned": "runner lost",
}
"""How an episode ended, as far as it did."""


class Words(NamedTuple):
    """What a figure is called, and what tells a newcomer how to read it."""

    title: str
    hint: str = ""


JUDGES = (
    "Judges score short pieces of play, called segments, from 0 (worst) to 1 (best). Whether a score is "
    "worth something shows later: did the agent reach a new milestone soon after?"
)
JUDGE_COLUMNS = {
    "judge": Words("judge"),
    "model": Words("model", "what answers"),
    "votes": Words("answers", "given in all"),
    "invalid": Words("unusable", "answers not counted"),
    "mean": Words("mean score", "0 worst, 1 best"),
    "spread": Words("spread", "of answers to the same question"),
    "tau": Words("foresight (tau)", "1: milestones follow high scores; 0: chance"),
    "followed": Words("milestone followed", "of the segments whose sequel is known"),
    "latency": Words("time for an answer", "half were quicker"),
}
"""The columns of a table of judges."""

UNKNOWN = {
    "alpha": "How far the judges agree (alpha)",
    "tau": "The judges' foresight (tau)",
    "brier": "How well scores foretell a milestone (Brier score)",
}
"""Figures of a judge pass that may not be known, as the beginning of a sentence."""

CHARTS = {
    "right": Words(
        "How often the reward model is right",
        "It says which of two moments is better, in episodes that it did not learn from. 1: always right; "
        "0.5: guessing. A thin bar: where the true share lies, with 95% certainty.",
    ),
    "agreement": Words(
        "Do judges agree, and do they foresee?", "1: perfect; 0: chance; below 0: worse than chance."
    ),
    "walkthrough": Words(
        "Does its value rise along the right way?",
        "A script plays the game as it should be played. The reward model's value should rise all the time "
        "(1) and fall little on entering a room (near 0).",
    ),
    "drift": Words(
        "How much the reward model changed",
        "Mean change of its value for the same moments since the epoch before; values differ by about 1.",
    ),
    "weight": Words(
        "How much the reward model counts in training",
        "0: not at all. It counts only where it is often right.",
    ),
    "calibration": Words(
        "Is the reward model as sure as it should be?",
        "A dot is a group of pairs of moments: how sure the model was that the first is better (across), and "
        "how often judges said so (up). On the dotted line it is just as sure as it should be. A larger dot "
        "has more pairs.",
    ),
}
"""Charts of judges and reward models."""

MODEL = {
    "reading": Words("what it compares", "difference: how much a segment's value rose; mean: its mean value"),
    "judges": Words("agrees with the judges", "share of pairs of unseen segments; 0.5 is guessing"),
    "gold": Words("agrees with what came next", "which of two segments a milestone followed"),
    "cells": Words("agrees with the judges about places", "pairs of unseen places; 0.5 is guessing"),
    "trust": Words("rates the state after a milestone higher", "decides how much it counts in training"),
    "spearman": Words("rises along the game's walkthrough", "1: all the time; 0: not at all"),
    "largest_fall": Words("largest fall there on entering a room", "its values differ by about 1"),
    "brier": Words("error of its forecasts (Brier score)", "0 is perfect, 0.25 is guessing"),
    "length_only": Words(
        "what a segment's length alone tells", "share of pairs; 0.5: nothing, as it should be"
    ),
    "drift": Words("change since the epoch before (drift)", "its values differ by about 1"),
    "learned_from": Words("learned from", "segments, places, episodes"),
    "pairs": Words("pairs learned from, pairs kept for the test"),
}
"""What is known of a reward model; shares stand with the range of the true one, with 95% certainty."""

JOBS = {
    "job_id": "job",
    "kind": "kind",
    "status": "status",
    "priority": "priority, higher goes first",
    "gpus": "GPUs",
    "memory_mb": "memory per GPU, MB",
    "shared": "may share a GPU",
    "retry_count": "times tried again",
    "max_retries": "times it may be tried again",
    "retry_errors": "tried again after own errors",
    "memory_before_mb": "memory per GPU before it ran out, MB",
    "failure_reason": "why it failed",
    "failure_detail": "in detail",
    "log_note": "missing of the log",
    "cancel_requested_at": "asked to be cancelled (UTC)",
    "created_at": "submitted (UTC)",
    "pending_since": "waits for a machine since (UTC)",
    "started_at": "started (UTC)",
    "finished_at": "ended (UTC)",
    "attempt": "attempt now or last",
    "output_url": "output goes to",
}
"""The fields of a fleet's job, as far as their names do not say it."""

_GROUPS = {"llm": "Language models"}
_FIRST_THOUGHT = re.compile(r"[^,;]+")


def setting_title(name: str) -> str:
    """The description of a setting by its name, `learning rate of Adam` for `LR`; else the name."""
    return _descriptions().get(name.upper()) or name


def part_title(name: str) -> str:
    """A part of the reward: `first visit of a room in an episode` for `room`.

    It is the description of the part's weight up to the first comma; the name where there is no such weight.
    """
    found = _FIRST_THOUGHT.match(_descriptions().get(f"REWARD_{name.upper()}", ""))
    return found.group() if found else name.replace("_", " ")


def unknown(name: str, epoch: int, reason: str) -> str:
    """A sentence that says why a figure of a judge pass is not known."""
    return f"{UNKNOWN.get(name, name.capitalize())} is not known for epoch {epoch}: {reason}."


def job_title(name: str) -> str:
    """A field of a fleet's job: `times tried again` for `retry_count`."""
    return JOBS.get(name, name.replace("_", " "))


def group_title(name: str) -> str:
    """A group of settings: `Training` for `training`."""
    return _GROUPS.get(name, name.capitalize())


@cache
def _descriptions() -> dict[str, str]:
    return {
        name.upper(): field.description or "" for kind in GROUPS for name, field in kind.model_fields.items()
    }
