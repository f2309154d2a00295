"""Celery's own commands, run with an app of ours."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from celery import Celery


def run(app: Celery, arguments: Sequence[str]) -> int:
    """Run `celery ARGUMENTS` in this process and return its exit code.

    `app.start` drops the code that click hands back, and a worker that crashed would end with 0.
    """
    # Loaded here: it brings a whole shell, and most commands are not a worker's.
    celery = importlib.import_module("celery.bin.celery").celery
    celery.params[0].default = app
    code = celery.main(args=list(arguments), standalone_mode=False)
    return code if isinstance(code, int) else 0
