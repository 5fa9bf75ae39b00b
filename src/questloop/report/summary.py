"""What a run's table comes to, in sentences: whether the agent got better, and what the judges did for it.

Every sentence states figures of the rows; where one was not measured, it is not spoken of.
"""

from __future__ import annotations

from collections.abc import Mapping

from questloop.episodes.plain import counted
from questloop.game.profiles import profile_in_force
from questloop.report.table import Row, text
from questloop.settings import GameSettings


def milestone_titles(game: GameSettings) -> dict[str, str]:
    """Titles of the game's milestones by key, in the game's order."""
    return {milestone.key: milestone.title for milestone in profile_in_force(game).milestones}


def sentences(rows: list[Row], titles: Mapping[str, str]) -> list[str]:
    """Of the rows of a run, in order; `titles`: those of the game's milestones by key."""
    found = [progress(rows), furthest(rows, titles), judges_part(rows)]
    return [sentence for sentence in found if sentence]


def progress(rows: list[Row]) -> str | None:
    """How milestones per episode changed between the first and the last epoch."""
    known = [row for row in rows if row.milestones_per_episode is not None]
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    before, after = (text("milestones_per_episode", row) for row in (first, last))
    span = f"between epoch {first.epoch} and epoch {last.epoch}"
    if before == after:
        return f"Milestones per episode stayed at {before} {span}."
    assert first.milestones_per_episode is not None
    assert last.milestones_per_episode is not None
    verb = "rose" if last.milestones_per_episode > first.milestones_per_episode else "fell"
    return f"Milestones per episode {verb} from {before} to {after} {span}."


def furthest(rows: list[Row], titles: Mapping[str, str]) -> str | None:
    """How many episodes of the first and of the last epoch reached the furthest milestone that any did."""
    known = [row for row in rows if row.milestone_shares]
    if not known:
        return None
    first, last = known[0], known[-1]
    reached = [name for row in (first, last) for name, share in row.milestone_shares.items() if share]
    if not reached:
        return f"No episode of epoch {last.epoch} reached a milestone."
    order = {name: place for place, name in enumerate(titles)}
    name = max(reached, key=lambda key: order.get(key, -1))
    share = f"{_share(last, name)} of epoch {last.epoch}'s episodes"
    if first is not last:
        share += f", {_share(first, name)} of epoch {first.epoch}'s"
    return f"The furthest milestone, “{titles.get(name, name)}”, was reached by {share}."


def _share(row: Row, name: str) -> str:
    share = row.milestone_shares.get(name, 0.0)
    return f"{share:.1%}" if share else "none"


def judges_part(rows: list[Row]) -> str | None:
    """Whether the judges' scores shaped the last epoch, the figure that decided it, and where judges led."""
    if not rows or not rows[-1].shaping_reason:
        return None
    last = rows[-1]
    if not last.shaping_weight:
        reason = last.shaping_reason.removeprefix("off: ")
        return f"The judges' scores did not shape epoch {last.epoch}: {reason}.{_led(last)}"
    models = [row for row in rows[:-1] if row.trust is not None]
    if not models:
        return None
    return (
        "The reward model, learned from the judges' scores, was tried on episodes it had not seen. It rated "
        f"the state after a milestone above the one before in {text('trust', models[-1])} of the cases, "
        f"so it shaped epoch {last.epoch} with weight {text('shaping_weight', last)}.{_led(last)}"
    )


def _led(row: Row) -> str:
    if not row.judged_stages:
        return ""
    stages = counted(row.judged_stages, "stage")
    return f" Agents were led to the places that judges scored highest at {stages} of the quest."
