"""`specworth worker`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def worker(
    database: Annotated[
        str | None,
        typer.Option(help="The service's database; SPECWORTH_DATABASE_URL or a file of yours if not given."),
    ] = None,
    executor: Annotated[
        str | None, typer.Option(metavar="local|ray", help="Where servers of jobs run: here, or on a Ray cluster.")
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The cluster's head; RAY_ADDRESS or this host's if not given."),
    ] = None,
) -> Callable[[], int]:
    """Run the profile jobs that POST /v1/profiles queues, one at a time on the GPUs that this process sees.

    \b
      specworth serve &
      specworth worker
    One for each GPU, on as many hosts as there are, all with the same database:
      CUDA_VISIBLE_DEVICES=0 specworth worker --database postgresql://...
      CUDA_VISIBLE_DEVICES=1 specworth worker --database postgresql://...

    On a Ray cluster, of which this host is one, a worker for each job that is to run at a time:
      specworth worker --executor ray --ray-address 10.0.0.5:6379

    \b
    What jobs may do is the operator's choice, by variables that service and worker both read:
      SPECWORTH_ATTACH_HOSTS=vllm-a.internal,10.20.0.0/24   running servers besides those of this host
      SPECWORTH_LAUNCH_MODELS=Qwen/Qwen3-8B,...             models that may be started; none if not set
      SPECWORTH_LAUNCH_PYTHON=/opt/vllm/bin/python          where vLLM is
    """

    def job() -> int:
        from api.commands.run_worker import run_worker

        return run_worker(database, executor=executor, ray_address=ray_address)

    return job
