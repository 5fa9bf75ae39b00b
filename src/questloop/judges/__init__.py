"""Rubric, prompts, voting, ensemble, agreement and the evaluation pass."""
