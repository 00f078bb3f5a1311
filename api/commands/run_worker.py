"""Start a worker: settings and database are checked first, so that a mistake is one line."""

from __future__ import annotations

import logging
import logging.config

from api.history import schema
from api.history.database import open_database
from api.history.errors import UnavailableError
from api.jobs.worker import JobWorker
from api.operation.logs import configuration
from api.settings import load_settings, unknown_settings
from profiler.cluster.connection import load_ray, read_address

logger = logging.getLogger("specworth.jobs")


def run_worker(url: str | None, *, executor: str | None = None, ray_address: str | None = None) -> int:
    """Work until a signal ends it."""
    settings = load_settings(database_url=url, job_executor=executor, ray_address=ray_address)
    if settings.job_executor == "ray":
        load_ray()
        read_address(settings.ray_address)
    database = open_database(settings.database_url, wait_s=settings.database_wait_s)
    logging.config.dictConfig(configuration(settings.log_format))
    for name in unknown_settings():
        logger.warning("ignored %s: no such setting", name)
    try:
        schema.prepare(database)
    except UnavailableError as error:
        logger.warning("%s; the worker starts and asks again", error)
    try:
        return JobWorker(database, settings).run()
    finally:
        database.close()
