"""The vault of kept threads: their rows in the database, and copies of their rollouts in the blob store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from models.blobs import BlobStore, pack, unpack
from models.errors import DatabaseDown, ServiceError
from models.store import Store
from models.thread_tables import KeptThread, Rollout

THREAD: Table = KeptThread.__table__  # type: ignore[attr-defined]
ROLLOUT: Table = Rollout.__table__  # type: ignore[attr-defined]


class ThreadVault:
    """Implements agents.codex.rollouts.Vault. Every method blocks."""

    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._store = store
        # Made once: each kept turn runs them.
        insert = sqlite.insert if store.is_sqlite else postgresql.insert
        self._thread = insert(THREAD).on_conflict_do_nothing()
        new = insert(ROLLOUT)
        changed = {name: value for name, value in new.excluded.items() if name not in ("thread_id", "generation")}
        # Who had the lease before and does not know yet that it is lost may come after its new holder.
        # What is returned is what was written: PostgreSQL's driver does not count rows here.
        self._rollout = new.on_conflict_do_update(
            index_elements=["thread_id", "generation"], set_=changed, where=ROLLOUT.c.token <= new.excluded.token
        ).returning(ROLLOUT.c.generation)

    def put(self, thread: KeptThread, rollout: Rollout, data: bytes) -> None:
        """The blob before the row that names it: a row never points to nothing. What a later lease has kept stays, and
        that is an error: the registry must not move on to a digest that the row does not name."""
        self.blobs.put(rollout.digest, pack(data))
        with _database(), self._store.session() as session:
            connection = session.connection()
            connection.execute(self._thread, thread.model_dump())
            if connection.execute(self._rollout, rollout.model_dump()).one_or_none() is None:
                which = f"generation {rollout.generation} of thread {rollout.thread_id}"
                raise ServiceError(f"{which} was kept under a later lease already")

    def note(self, thread: KeptThread) -> None:
        with _database(), self._store.session() as session:
            session.connection().execute(self._thread, thread.model_dump())

    def fetch(self, digest: str) -> bytes | None:
        packed = self.blobs.get(digest)
        return None if packed is None else unpack(digest, packed)


@contextmanager
def _database() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseDown(f"the database does not answer: {error.__class__.__name__}") from error
