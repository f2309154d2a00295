"""A worker with the desk's own app and one small task, from which parts can be taken away.

`python -m tests.tasks.worker.patches.tiny QUEUE CONCURRENCY [guard|keep|batch]`; settings come from the environment.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from celery import Celery
from kombu.transport.redis import Channel

from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker import logs
from chordesk.tasks.worker.app import create_app, node_name
from chordesk.tasks.worker.celery_fixes import BatchEvents, KeepUnacked

VISIBILITY_SECONDS = 2.0
NAME = "tiny.work"


def record(home: Path) -> Path:
    """Where the task writes what it did: a file, since Redis may be away."""
    return home / "tiny.txt"


def make(without: str) -> Celery:
    settings = load_settings()
    logs.configure(settings)
    plain = Channel._connparams
    app = create_app(settings, f"tiny-{os.getpid()}")
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_restore_interval": 1,
    }
    if without == "guard":
        Channel._connparams = plain
    taken = {"keep": KeepUnacked, "batch": BatchEvents}.get(without)
    if taken is not None:
        app.steps["consumer"].remove(taken)
    path = record(settings.home)

    def work(label: str, seconds: float) -> None:
        for event, pause in (("began", seconds), ("ended", 0.0)):
            with path.open("a") as file:
                file.write(f"{event} {label}\n")
            time.sleep(pause)

    app.task(name=NAME)(work)
    return app


def main() -> None:
    queue, concurrency, without = sys.argv[1:4]
    make(without).worker_main(
        ["worker", "-Q", queue, "-P", "threads", "-c", concurrency, "-n", node_name(f"tiny-{queue}"), "-E",
         "--without-mingle", "--without-gossip"]
    )  # fmt: skip


if __name__ == "__main__":
    main()
