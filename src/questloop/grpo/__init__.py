"""Datasets, reward functions and the GRPO training script."""
