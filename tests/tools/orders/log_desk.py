"""Data folder with a log that a test writes and reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import AuditAnchor
from chordesk.tools.orders.audit import AuditEntry, ChainAnchor, ChainReading, log_path, record
from chordesk.tools.orders.audit_reading import CheckedChain, check_logs, last_entries
from tests.databases import make_database


class LogDesk:
    """Data folder with a database, and its log's lines."""

    def __init__(self, home: Path, **changes: Any) -> None:
        self.settings = Settings(home=home, **changes)
        make_database(self.settings.database)
        self.store = Store(self.settings.database)
        self.path = log_path(self.settings)

    def record(self, *kinds: str, **facts: Any) -> None:
        with self.store.session() as session:
            for kind in kinds:
                record(session, self.settings, kind, **facts)

    def lose(self, kind: str) -> None:
        """A transaction that fails at its commit, with the line on disk."""
        with pytest.raises(ZeroDivisionError), self.store.session() as session:
            record(session, self.settings, kind)
            event.listen(session, "before_commit", lambda _: 1 // 0)

    def check(self, *also: Path) -> list[CheckedChain]:
        return check_logs(self.store, self.settings, also)

    def reading(self) -> ChainReading:
        (found,) = self.check()
        return found.reading

    def entries(self) -> list[AuditEntry]:
        return sorted(last_entries(self.check(), 1000), key=lambda line: line.n)

    def kinds(self) -> list[str]:
        assert self.reading().problems == []
        return [entry.kind for entry in self.entries()]

    def anchor(self) -> ChainAnchor:
        with self.store.read() as session:
            row = session.exec(select(AuditAnchor)).one()
        return ChainAnchor(row.count, row.head, row.size)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
