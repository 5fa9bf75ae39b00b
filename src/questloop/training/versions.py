"""What a policy sees, by name and version: a checkpoint is read by nothing else."""

from questloop.game.observation import OBSERVATION_VERSION

VECTOR = f"vector-{OBSERVATION_VERSION}"
HINTED = f"{VECTOR}-hint-1"
VISUAL = "visual-1"
