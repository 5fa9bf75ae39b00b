"""The epoch loop: stages and resume."""
