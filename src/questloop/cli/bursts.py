"""The command `questloop bursts`: starts the Jobs that follow each burst of training on a cluster."""

from __future__ import annotations

import time
from typing import Annotated

import typer


def bursts(
    namespace: Annotated[str, typer.Option(help="Namespace of the RayJobs.")] = "zelda-rl",
    interval: Annotated[float, typer.Option(min=1, help="Seconds between two looks.")] = 10,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Make the evaluator's and the reward model's Job of each burst of training that has ended well.

    A burst is a RayJob labelled questloop.dev/burst=true, as gitops/jobs/zelda-train-epoch.yaml is. In the
    cluster the Deployment zelda-bursts runs this. An API server that does not answer is asked again.

    Examples:

        questloop bursts

        questloop bursts --once --namespace zelda-rl
    """
    from questloop.errors import UnavailableError
    from questloop.pipeline.bursts import Cluster, follow
    from questloop.telemetry.logs import get_logger

    cluster = Cluster(namespace)
    while True:
        try:
            follow(cluster, typer.echo)
        except UnavailableError as error:
            if once:
                raise
            get_logger(__name__).warning("bursts", reason=str(error))
        if once:
            return
        time.sleep(interval)
