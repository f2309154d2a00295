"""Without room no step begins; with room again all go on, and both are on record."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.events import DESK
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Step
from chordesk.models.tables.runtime import EventBatch, Notice
from chordesk.tasks.engine.shortage_watch import LOOK_SECONDS, ShortageWatch
from tests.builders import a_run, a_step
from tests.patience import PATIENCE


@contextmanager
def no_file_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 2, before[1]))
    held: list[int] = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_steps_wait_for_room_and_are_all_sent_anew(store: Store, tmp_path: Path) -> None:
    with store.session() as session:
        step = a_step(session, a_run(session), sent_at=utcnow()).id
    ending: list[bool] = []
    watch = ShortageWatch(Settings(home=tmp_path), lambda: store, lambda: bool(ending))
    with ThreadPoolExecutor(1) as pool:
        with no_file_left():
            watch.start()
            assert "open files" in (watch.why_not() or "")
            waiting = pool.submit(watch.wait)
            time.sleep(2 * LOOK_SECONDS)  # it goes on looking
            assert not waiting.done()
        assert waiting.result(PATIENCE), "there is room again"
    until = time.monotonic() + PATIENCE
    while not (changes := _noted(store)):
        assert time.monotonic() < until, "nothing is on record"
        time.sleep(0.05)
    ending.append(True)
    with store.read() as session:
        sent = session.get_one(Step, step).sent_at
        batches = session.exec(select(EventBatch).where(EventBatch.run_id == DESK)).all()
    assert changes == ["out", "enough"]
    assert sent is None, "the next sweep sends it"
    assert batches


def _noted(store: Store) -> list[str]:
    with store.read() as session:
        rows = session.exec(select(Notice).where(Notice.kind == "room")).all()
    return [str(row.facts["state"]) for row in sorted(rows, key=lambda row: row.occurred_at)]
