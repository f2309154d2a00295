"""Where the lines of the desk's modules go in a program of somebody else: never to its standard output."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import structlog


def keep_apart() -> None:
    """Send the lines of the desk's modules to Python's logging, whose warnings go to standard error by default, and all
    other lines where the program sends them: by structlog's default that is its standard output. A program that sets
    structlog up afterwards decides on all lines."""
    others = structlog.get_config()["logger_factory"]
    if not isinstance(others, partial) or others.func is not _logger:
        structlog.configure(logger_factory=partial(_logger, others))


def _logger(others: Any, *names: Any) -> Any:
    ours = bool(names) and str(names[0]).startswith("chordesk.")
    return logging.getLogger(names[0]) if ours else others(*names)
