"""What does the service log, and what never?

One line of JSON an event (or text for people), with time, level, logger, event, and the id of the request that it
belongs to. Never: prompts, bodies, query strings, API keys, and the messages of unexpected errors, since those may
quote what was being read; of such an error stand its type and the places in the code that it came through.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any, Literal

import orjson
import structlog
from structlog.typing import EventDict, WrappedLogger

Format = Literal["auto", "json", "text"]


def configuration(format: Format) -> dict[str, Any]:
    """For logging.config.dictConfig and uvicorn: one form; requests to standard output, all else to standard error.

    Whoever starts the service and waits on standard error for its address need not read on for ever.
    """
    as_text = format == "text" or (format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_messages,
    ]
    rendering: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    rendering.append(_text if as_text else structlog.processors.JSONRenderer(serializer=_json))
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "one": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": rendering,
                "use_get_message": True,
            }
        },
        "handlers": {
            "events": {"class": "logging.StreamHandler", "formatter": "one", "stream": sys.stderr},
            "requests": {"class": "logging.StreamHandler", "formatter": "one", "stream": sys.stdout},
        },
        "root": {"handlers": ["events"], "level": "WARNING"},
        "loggers": {
            "specworth": {"level": "INFO"},
            "specworth.requests": {"handlers": ["requests"], "propagate": False},
            "uvicorn": {"level": "INFO"},
            "uvicorn.access": {"handlers": [], "propagate": False},  # its lines have whole queries
        },
    }


def _json(event: Any, **_: Any) -> str:  # noqa: ANN401  # structlog's own signature
    return orjson.dumps(event, default=str, option=orjson.OPT_SORT_KEYS).decode()


def _without_messages(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """An exception as its type and places."""
    event.pop("color_message", None)  # uvicorn's own copy of its message
    given = event.pop("exc_info", None)
    error = given[1] if isinstance(given, tuple) else given if isinstance(given, BaseException) else None
    if error is not None:
        event["exception"] = type(error).__qualname__
        frames = traceback.extract_tb(error.__traceback__)
        event["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return event


def _text(_: WrappedLogger, __: str, event: EventDict) -> str:
    """For people: time, level, what happened, and the rest as name=value."""
    time, level = str(event.pop("timestamp"))[11:19], str(event.pop("level"))
    what, frames = event.pop("event"), event.pop("frames", ())
    event.pop("logger", None)
    rest = "".join(f" {name}={value}" for name, value in event.items())
    return f"{time} {level:<7} {what}{rest}" + "".join(f"\n    {frame}" for frame in frames)
