"""A reset that loses its lease before it is written: it fails, and the record stays as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import redis

from chordesk.agents.codex.threads import LEASE, RECORD
from chordesk.agents.runtime import ThreadRecord
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.thread_actions import reset
from tests.databases import make_database

NAME = "risk:scope/IBM"
KEPT = ThreadRecord(
    thread_id="t1", generation=1, token=1, turns=1, last_turn_id=None, created_at=1.0, updated_at=1.0,
    reason="initial", toolset_hash="h", binary_version="1", home="x", model="m",
)  # fmt: skip


@contextmanager
def leases_vanish(url: str) -> Iterator[None]:
    """As if each had run out at once: so many deletions are under way that one soon comes between two commands."""
    over = threading.Event()

    def delete() -> None:
        with redis.Redis.from_url(url) as client:
            while not over.is_set():
                pipeline = client.pipeline(transaction=False)
                for _ in range(500):
                    pipeline.delete(f"{LEASE}{NAME}")
                pipeline.execute()

    threads = [threading.Thread(target=delete) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_reset_is_reported_as_written_only_when_it_was(tmp_path: Path, redis_server: str) -> None:
    settings = Settings(home=tmp_path, redis_url=redis_server)
    make_database(settings.database)
    with redis.Redis.from_url(redis_server) as client, closing(Desk(settings, "threads")) as desk:
        client.flushall()

        def written() -> bool:
            """Return whether the reset reports a write; the record has to agree."""
            client.set(f"{RECORD}{NAME}", KEPT.model_dump_json())
            reported = True
            try:
                reset(desk, "t1")
            except UsageError:
                reported = False
            dropped = ThreadRecord.model_validate_json(client.get(f"{RECORD}{NAME}") or b"").dropped
            assert dropped == ("manual" if reported else None)
            return reported

        assert written()
        with leases_vanish(redis_server):
            assert not all(written() for _ in range(200))
