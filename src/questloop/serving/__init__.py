"""Local HTTP servers on this machine: the rule-based judges and planner, and a small language model."""
