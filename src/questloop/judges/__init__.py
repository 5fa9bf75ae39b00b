"""Language models and rules that score recorded play: rubric, prompts, votes, agreement, the judge pass."""
