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
    cluster the Deployment zelda-bursts runs this. What fails at one look, because the API server does not
    answer for example, is tried again at the next.

    Examples:

        questloop bursts

        questloop bursts --once --namespace zelda-rl
    """
    from questloop.errors import QuestloopError
    from questloop.pipeline.bursts import Cluster, follow
    from questloop.telemetry.logs import get_logger

    cluster, said = Cluster(namespace), set[str]()

    def tell(line: str) -> None:
        if line not in said:  # a state is told once, not at every look
            said.add(line)
            typer.echo(line)

    while True:
        try:
            follow(cluster, tell)
        except QuestloopError as error:
            if once:
                raise
            get_logger(__name__).warning("bursts", reason=str(error))
        if once:
            return
        time.sleep(interval)
