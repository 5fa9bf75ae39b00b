"""What a policy sees, by name and version: a checkpoint is read by nothing else."""

from questloop.game.observation import OBSERVATION_VERSION

VECTOR = f"vector-{OBSERVATION_VERSION}"
AIMED = f"{VECTOR}-aim-1"
HINTED = f"{VECTOR}-hint-1"
VISUAL = "visual-1"

WHITE_MOST = 5.0
"""A whitened component is cut off here, in spreads."""
