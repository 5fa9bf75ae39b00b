"""Decides when the planner takes over: a pure state machine with hysteresis, cool-down and a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

from questloop.episodes.mode import Mode


@dataclass(frozen=True)
class ModeRules:
    """In frames of the game, whatever a step has of them.

    `hold_frames`: what is seen holds so long before the mode changes, both ways; `cooldown_frames`: the
    planner's rest after a failed takeover; `budget_frames`: most frames of an episode that plans play; a
    takeover under way is played to its end.
    """

    hold_frames: int = 12
    cooldown_frames: int = 1_200
    budget_frames: int = 36_000


@dataclass(frozen=True)
class ModeState:
    """Immutable: `observe`, `played`, `failed` and `handed_back` return the next state.

    `streak`, `cooldown` and `spent` count frames of the game.
    """

    rules: ModeRules = ModeRules()
    mode: Mode = Mode.POLICY
    candidate: Mode = Mode.POLICY
    streak: int = 0
    cooldown: int = 0
    spent: int = 0

    def observe(self, dialog: bool, puzzle: bool, frames: int) -> ModeState:
        """What a step of `frames` frames led to. A dialog goes before a puzzle, since it holds the game."""
        seen = Mode.DIALOG if dialog else Mode.PUZZLE if puzzle else Mode.POLICY
        cooldown = max(0, self.cooldown - frames)
        if seen is not Mode.POLICY and (cooldown or self._spent(seen)):
            seen = Mode.POLICY
        streak = self.streak + frames if seen is self.candidate else frames
        after = replace(self, candidate=seen, streak=streak, cooldown=cooldown)
        if seen is self.mode or streak < self.rules.hold_frames:
            return after
        return replace(after, mode=seen)

    def played(self, frames: int) -> ModeState:
        """A plan plays a step of `frames` frames."""
        return replace(self, spent=self.spent + frames)

    def failed(self) -> ModeState:
        """The takeover in force was aborted: hand back at once and leave the planner out for a while."""
        return replace(
            self, mode=Mode.POLICY, candidate=Mode.POLICY, streak=0, cooldown=self.rules.cooldown_frames
        )

    def handed_back(self) -> ModeState:
        """The takeover in force has done its work: the policy plays on at once."""
        return replace(self, mode=Mode.POLICY, candidate=Mode.POLICY, streak=0)

    @property
    def at_rest(self) -> bool:
        """Whether further frames with neither a dialog nor a puzzle change nothing that matters."""
        quiet = self.mode is Mode.POLICY and self.candidate is Mode.POLICY
        return quiet and self.streak >= self.rules.hold_frames and not self.cooldown

    def _spent(self, seen: Mode) -> bool:
        return seen is not self.mode and self.spent >= self.rules.budget_frames
