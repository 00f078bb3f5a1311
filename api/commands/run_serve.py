"""Start the service: settings, database and address are checked first, so that a mistake is one line and no log."""

from __future__ import annotations

import logging
import logging.config
import os
import socket
import tempfile

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from api.app import create_app
from api.operation.logs import configuration
from api.settings import PREFIX, Settings, load_settings, unknown_settings
from profiler.errors import InputError, SpecworthError

logger = logging.getLogger("specworth")


def run_serve(
    *, host: str | None, port: int | None, database: str | None, keys: bool, store: bool, processes: int | None
) -> int:
    """Serve until a signal ends it; requests under way are finished first."""
    given = {
        "host": host, "port": port, "database_url": database, "no_keys": None if keys else True,
        "store": None if store else False, "processes": processes,
    }  # fmt: skip
    settings = load_settings(**given)
    _check_address(settings.host, settings.port)
    app = create_app(settings)
    log = configuration(settings.log_format)
    logging.config.dictConfig(log)
    for name in unknown_settings():
        logger.warning("ignored %s: no such setting", name)
    if app.state.access.keys is None:
        logger.warning("no API keys: everybody on this machine can ask, and nobody else")
    if app.state.history is not None:
        app.state.history.prepare_if_there()
        logger.info("recommendations are kept in %s", app.state.history.database)
    if settings.processes > 1:
        os.environ |= {PREFIX + name.upper(): str(value) for name, value in given.items() if value is not None}
        return _serve_in_processes(settings)
    uvicorn.run(
        app, host=settings.host, port=settings.port, log_config=log, access_log=False, server_header=False,
        timeout_graceful_shutdown=settings.shutdown_s,
    )  # fmt: skip
    return 0


def _serve_in_processes(settings: Settings) -> int:
    """Several processes at one address, each with an application of its own; one that dies is started again.

    They share the database and, by files, their metrics; a key's rate is counted in each of them.
    """
    with tempfile.TemporaryDirectory(prefix="specworth-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        config = uvicorn.Config(
            "api.commands.run_serve:application", factory=True, workers=settings.processes, host=settings.host,
            port=settings.port, log_config=None, access_log=False, server_header=False,
            timeout_graceful_shutdown=settings.shutdown_s,
        )  # fmt: skip
        listening = config.bind_socket()
        # asyncio does so for sockets of its own alone. Without it an answer's body waits for the acknowledgement of its
        # head, which a client puts off by 40 ms. Connections have it from the socket that accepts them.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Multiprocess(config, sockets=[listening]).run()
    return 0


def application() -> FastAPI:
    """The application of one of several processes, which has to set up its own log."""
    settings = load_settings()
    logging.config.dictConfig(configuration(settings.log_format))
    return create_app(settings)


def _check_address(host: str, port: int) -> None:
    """Raise SpecworthError where nothing can listen there: uvicorn would log it amid its own start and exit with 3."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host: {host!r} is no address of this machine", expected="a name or address to listen on",
            got=str(getattr(error, "strerror", None) or error),
        ) from None  # fmt: skip
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does: a port in TIME_WAIT is free
        try:
            probe.bind(address)
        except OSError as error:
            raise SpecworthError(
                f"cannot listen on {host} port {port}", got=(error.strerror or str(error)).lower(),
                remedy="choose another with --port (0 takes a free one), or stop what listens there",
            ) from None  # fmt: skip
