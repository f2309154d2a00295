"""A desk that has the toy workflows too: `... toy.desk worker`, or `... toy.desk run NUMBER,NUMBER ...`; `family` in
place of `run` opens one run that opens those.

A process of its own, for the table of kinds is one for a whole process.
"""

from __future__ import annotations

import json
import sys
import time

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.cli.processes import WorkerRole, worker_arguments
from chordesk.tasks.cli.show.runs import progress_line
from chordesk.tasks.reading.runs import progress, view
from chordesk.tasks.worker import celery_fixes, logs
from chordesk.tasks.worker.app import create_app
from tests.toy.workflow import open_toy, open_toys

SECONDS = 60.0


def work() -> int:
    settings = load_settings()
    logs.configure(settings)
    return celery_fixes.run_celery(create_app(settings, "toy"), worker_arguments(settings, WorkerRole.ALL, 8, "toy"))


def run(given: list[list[int]], *, family: bool = False) -> None:
    """Open a run for each list of numbers, wait for their ends and print each as JSON with its line of progress.
    family: open them by one run, and print that one."""
    app = create_app(load_settings(), "cli")
    store, until = desk_of(app).store, time.monotonic() + SECONDS
    run_ids = [open_toys(app, given).id] if family else [open_toy(app, numbers).id for numbers in given]
    found = []
    for run_id in run_ids:
        while not _ended(store, run_id) and time.monotonic() < until:
            time.sleep(0.05)
        with store.read() as session:
            shown = view(session, session.get_one(Run, run_id)).model_dump(mode="json")
            found.append({**shown, "line": progress_line(progress(session, run_id))})
    print(json.dumps(found))
    desk_of(app).close()


def _ended(store: Store, run_id: str) -> bool:
    with store.read() as session:
        return session.get_one(Run, run_id).state in RUN_FINAL


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        raise SystemExit(work())
    lists = [[int(number) for number in numbers.split(",")] for numbers in sys.argv[2:]]
    run(lists, family=sys.argv[1] == "family")
