"""Training jobs on SSH GPU machines: never lost, never run twice."""
