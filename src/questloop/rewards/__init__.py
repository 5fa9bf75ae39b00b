"""Events, coverage, curiosity and shaping, and the one place they are summed."""
