"""Runner, learner, trainer and checkpoints."""
