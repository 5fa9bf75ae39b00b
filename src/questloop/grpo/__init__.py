"""Datasets, reward functions and the GRPO training script.

`rewards.BUILTIN_REWARDS` is the registry of reward functions, `data.load_rows` reads a dataset, `train.main`
is the training script, `judge_data` builds datasets from judged segments.
"""
