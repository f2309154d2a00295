"""Logs: one format for our lines and the libraries', to stderr, as text or JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from chordesk.models.settings import Settings

# Two lines a task repeat what is in the database, and cost a tenth of a task's time; alembic's name its own classes.
_CHATTY = ("celery.worker.strategy", "celery.app.trace", "alembic")
# At DEBUG they write what goes over a stream: the login of the broker's is its key and secret.
_TELLTALE = ("websockets",)


AGAIN_SECONDS = 10.0


class _NotAgain(logging.Filter):
    """Passes a line of asyncio's once in AGAIN_SECONDS: without a file left to open it writes a thousand a second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: tuple[str, float] = ("", 0.0)

    def filter(self, record: logging.LogRecord) -> bool:
        line, at = record.getMessage().partition("\n")[0], record.created
        again = self._said[0] == line and at - self._said[1] < AGAIN_SECONDS
        if not again:
            self._said = (line, at)
        return not again


def quiet() -> None:
    """Set up logging for a command that ends: warnings alone, on stderr. Its answer is on stdout."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso"), _plain_text()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )


def _plain_text() -> structlog.dev.ConsoleRenderer:
    """structlog's tracebacks show every variable, keys among them, and take seconds to draw."""
    return structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)


def configure(settings: Settings) -> None:
    from celery.signals import setup_logging  # a command that ends has no use for it

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    last = structlog.processors.JSONRenderer() if settings.log_json else _plain_text()
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.log_level)),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=last, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    logging.getLogger("asyncio").addFilter(_NotAgain())
    for name in _TELLTALE:
        logging.getLogger(name).setLevel(logging.WARNING)
    if root.level > logging.DEBUG:
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
    setup_logging.connect(_keep, weak=False)


def _keep(**_: Any) -> None: ...
