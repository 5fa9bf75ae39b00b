"""The epoch loop: stages, resume, report."""
