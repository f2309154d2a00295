"""A desk's data by hand: orders with their lineage, an audit log, pictures, rollouts, a halt and a mandate."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from chordesk.models.database.blobs import blob_store, digest_of, keep, pack, remove, stored_files
from chordesk.models.database.store import Store, every_table
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Artifact, ToolCall
from chordesk.models.tables.runtime import Rollout
from chordesk.tasks.backup.making import Made, Restored, backup, restore
from chordesk.tasks.backup.places import MANIFEST_NAME, Manifest, file_of
from chordesk.tasks.cli import arming
from chordesk.tools.orders import audit, halting
from tests.builders import a_run, a_step, a_turn
from tests.databases import make_database
from tests.tasks.views.chain import a_chain

BY = "ann@desk"


@dataclass(slots=True)
class DeskData:
    """The data folder and the database of a desk, and the settings that lead there."""

    settings: Settings
    store: Store

    def picture(self, data: bytes) -> str:
        """Give a picture to a turn as a worker does: the file first, then its row. Return its digest."""
        keep(self.settings.home, data, "image/png")
        with self.store.session() as session:
            turn = a_turn(session, a_step(session, a_run(session)))
            call = ToolCall(turn_id=turn.id, ordinal=0, tool="c", output="{}", success=True, has_data=True, seconds=0.1)
            session.add(call)
            session.flush()
            named = {"kind": "image/png", "digest": digest_of(data), "size": len(data)}
            session.add(Artifact(run_id=turn.run_id, turn_id=turn.id, call_id=call.id, **named))
        return digest_of(data)

    def rollout(self, data: bytes) -> str:
        """Keep a rollout: the blob first, then its row. Return its digest."""
        digest = digest_of(data)
        blob_store(self.settings.blob_url, self.store).put(digest, pack(data))
        with self.store.session() as session:
            thread = {"thread_id": new_id(), "generation": 1, "token": 1, "path": "p", "turns": 1, "record": "{}"}
            session.add(Rollout(digest=digest, size=len(data), **thread))
        return digest

    def line(self, kind: str = "checked", **facts: Any) -> None:
        """Write a line of the audit log in a transaction of its own."""
        with self.store.session() as session:
            audit.record(session, self.settings, kind, **facts)

    def halt(self, why: str) -> None:
        halting.write_file(self.settings, why, BY)
        halting.halt(self.store, self.settings.account, why, BY)

    def arm(self) -> None:
        """Sign a mandate for real money."""
        key = arming.signing_key(self.settings.home / "mandate.key")
        limits: dict[str, Any] = {"max_notional": Decimal(1000), "max_orders": 3, "symbols": ["*"], "hours": 8.0}
        arming.arm(self.store, self.settings, key, "alpaca-live", by=BY, **limits)

    def backup(self, address: Path | str) -> Made:
        return backup(self.settings, self.store, str(address), "0.1.0")


def desk_data(home: Path, **environ: str) -> DeskData:
    """Return an empty desk's data."""
    home.mkdir(exist_ok=True)
    settings = load_settings({"DESK_HOME": str(home), **environ}, home)
    make_database(settings.database)
    return DeskData(settings, Store(settings.database))


def filled(data: DeskData) -> DeskData:
    """Return it with orders of a screen, lines on each of them, two pictures, one that was removed, and a rollout."""
    with data.store.session() as session:
        a_chain(session)
        for order_id in session.execute(select(col(Order.id))).scalars():
            audit.record(session, data.settings, "denied", order=order_id)
    for content in (b"one", b"two"):
        data.picture(content)
    gone = data.picture(b"gone")
    remove(next(file for file in stored_files(data.settings.home) if file.digest == gone))
    data.rollout(b"rollout" * 100)
    return data


def restored(address: Path | str, home: Path, **environ: str) -> tuple[Restored, DeskData]:
    """Restore a backup into a folder and return its data."""
    settings = load_settings({"DESK_HOME": str(home), **environ}, home)
    done = restore(settings, str(address), BY)
    return done, DeskData(settings, Store(settings.database))


def reseal(copy: Path, **changes: object) -> None:
    """Alter the manifest as a person would who hides changes to files: with their SHA-256, and its own seal."""
    made = Manifest.model_validate_json((copy / MANIFEST_NAME).read_text())
    changes = {"files": [file_of(copy, file.path) for file in made.files], **changes}
    (copy / MANIFEST_NAME).write_text(made.model_copy(update=changes).sealed().model_dump_json())


def rows(store: Store, but: frozenset[str] = frozenset()) -> dict[str, list[Any]]:
    """Return all rows by table, without some tables."""
    with store.read() as session:
        return {
            name: sorted(map(repr, session.execute(select(table)).all()))
            for name, table in every_table().items()
            if name not in but
        }
