"""`desk toy`: runs of the toy workflow, each followed to its end and printed as JSON with its line of progress."""

import json
import time
from typing import Annotated

import typer

from chordesk.plugins import RUN_FINAL, Run, Store, connected, progress, progress_line, view
from chordesk_toy.workflow import open_toy, open_toys

SECONDS = 60.0
commands = typer.Typer()


@commands.command()
def toy(
    lists: Annotated[list[str], typer.Argument(help="NUMBER,NUMBER ...: a run each.")],
    family: Annotated[bool, typer.Option("--family", help="One run that opens those, and waits for them.")] = False,
) -> None:
    """Square numbers, add them up, and double the sum."""
    given = [[int(number) for number in numbers.split(",")] for numbers in lists]
    app = connected()
    store, until = app.desk.store, time.monotonic() + SECONDS
    run_ids = [open_toys(app, given).id] if family else [open_toy(app, numbers).id for numbers in given]
    found = []
    for run_id in run_ids:
        while not _ended(store, run_id) and time.monotonic() < until:
            time.sleep(0.05)
        with store.read() as session:
            shown = view(session, session.get_one(Run, run_id)).model_dump(mode="json")
            found.append({**shown, "line": progress_line(progress(session, run_id))})
    print(json.dumps(found))
    app.desk.close()


def _ended(store: Store, run_id: str) -> bool:
    with store.read() as session:
        return session.get_one(Run, run_id).state in RUN_FINAL
