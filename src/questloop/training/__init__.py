"""PPO on RLlib: runners that sample, the learner that fits, the trainer of epochs, and checkpoints."""
