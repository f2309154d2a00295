"""The vault of kept threads: their rows in the database, and copies of their rollouts in the blob store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from chordesk.agents.codex.threads.transcript import transcript
from chordesk.agents.kept_threads import TranscriptTurn
from chordesk.models.database.blobs import BlobStore, pack, unpack
from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, ServiceError
from chordesk.models.tables.threads import KeptThread, Rollout

THREAD: Table = KeptThread.__table__  # type: ignore[attr-defined]
ROLLOUT: Table = Rollout.__table__  # type: ignore[attr-defined]


class ThreadVault:
    """Store of kept threads that outlives their home. Its methods block: call them off the event loop."""

    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._store = store
        # Made once: each kept turn runs them.
        insert = sqlite.insert if store.is_sqlite else postgresql.insert
        self._thread = insert(THREAD).on_conflict_do_nothing()
        new = insert(ROLLOUT)
        changed = {name: value for name, value in new.excluded.items() if name not in ("thread_id", "generation")}
        # A former holder that has not noticed the loss of its lease may write after the new holder.
        # A returned row was written: PostgreSQL's driver does not count rows here.
        self._rollout = new.on_conflict_do_update(
            index_elements=["thread_id", "generation"], set_=changed, where=ROLLOUT.c.token <= new.excluded.token
        ).returning(ROLLOUT.c.generation)

    def put(self, thread: KeptThread, rollout: Rollout, data: bytes) -> None:
        """Keep a copy of a thread's file, under the generation that the registry gets next.

        data: the file; its SHA-256 is rollout.digest. The thread's own row is written unless it is there. The same
        generation may be put again, when its first writer ended before it updated the registry. The blob is stored
        before the row that names it: a row never points to nothing. A copy of a later lease stays, and that is an
        error: the registry must not name a digest that the row does not name. Raises ServiceError.
        """
        self.blobs.put(rollout.digest, pack(data))
        with _database(), self._store.session() as session:
            connection = session.connection()
            connection.execute(self._thread, thread.model_dump())
            if connection.execute(self._rollout, rollout.model_dump()).one_or_none() is None:
                which = f"generation {rollout.generation} of thread {rollout.thread_id}"
                raise ServiceError(f"{which} was kept under a later lease already")

    def note(self, thread: KeptThread) -> None:
        """Write the thread's own row alone, unless it is there: its file is never resumed. Raises ServiceError."""
        with _database(), self._store.session() as session:
            session.connection().execute(self._thread, thread.model_dump())

    def fetch(self, digest: str) -> bytes | None:
        """Return the file with that digest; None when there is none or it was changed. Raises ServiceError."""
        packed = self.blobs.get(digest)
        return None if packed is None else unpack(digest, packed)

    def transcript(self, digest: str) -> list[TranscriptTurn] | None:
        """Return the turns of the file with that digest; None when there is none or it was changed. Raises
        ServiceError."""
        data = self.fetch(digest)
        return None if data is None else transcript(data)


@contextmanager
def _database() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseDown(f"the database does not answer: {error.__class__.__name__}") from error
