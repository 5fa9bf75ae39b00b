"""The old name of `questloop.env.gym_env`, which registers the environments with Gymnasium."""

from questloop.env.gym_env import MOSSGROVE, ORACLE_OF_SEASONS, QuestEnv, QuestVectorEnv

__all__ = ["MOSSGROVE", "ORACLE_OF_SEASONS", "QuestEnv", "QuestVectorEnv"]
