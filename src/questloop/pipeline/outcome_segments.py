"""Reads segments whose outcome is known, to train judges and to measure them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.episodes.spans import window_steps
from questloop.grpo.judge_data import OutcomeSegment
from questloop.judges.compress import compress

# Two of these in one question stay well inside the 8,192 tokens of the small model.
TOKEN_BUDGET = 350


def outcome_segments(
    reader: SegmentReader, epochs: Sequence[int], token_budget: int = TOKEN_BUDGET
) -> Iterator[OutcomeSegment]:
    """Exported segments of `epochs` whose outcome is known, with a summary of at most `token_budget` tokens.

    The progress of a segment is the unshaped return of its episode in the window after it that its outcome
    is taken from.
    """
    for epoch in epochs:
        known = outcomes(reader, epoch)
        exported = set(reader.list(epoch))
        for record in reader.episodes(epoch):
            for entry in record.segments:
                if entry.segment_id not in exported or entry.segment_id not in known:
                    continue
                end = entry.first_step + entry.frames
                until = end + window_steps(record.segment_steps)
                after = (later.raw_return for later in record.segments if end <= later.first_step < until)
                yield OutcomeSegment(
                    segment_id=entry.segment_id,
                    episode_id=record.id,
                    text=compress(reader.load(entry.segment_id).states, token_budget).text,
                    outcome=known[entry.segment_id],
                    progress=sum(after),
                )
