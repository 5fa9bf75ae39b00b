"""What a step of play is worth: events, coverage, curiosity, shaping, and the one place they are summed."""
