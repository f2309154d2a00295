"""Celery's own commands, run with an app of ours."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery
from celery.bin.celery import celery


def run(app: Celery, arguments: Sequence[str]) -> int:
    """Run `celery ARGUMENTS` in this process; its exit code.

    `app.start` drops the code that click hands back, and a worker that crashed would end with 0.
    """
    celery.params[0].default = app
    code = celery.main(args=list(arguments), standalone_mode=False)
    return code if isinstance(code, int) else 0
