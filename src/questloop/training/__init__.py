"""Composed environment, runner, learner and checkpoints."""
