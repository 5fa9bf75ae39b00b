"""The training loop: an epoch's three stages, how a run resumes, and how epochs are sent to a cluster."""
