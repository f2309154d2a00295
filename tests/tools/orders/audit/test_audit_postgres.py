"""The log and the mandates on a real PostgreSQL, where writers do not queue by themselves."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.orders import MandateTerms
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Account
from chordesk.tasks.cli import arming
from chordesk.tools.orders import halting
from chordesk.tools.orders.audit import record
from chordesk.tools.orders.audit_reading import check_logs
from chordesk.tools.orders.mandates import in_force
from tests.patience import PATIENCE

pytestmark = pytest.mark.postgres
WRITERS, EACH = 6, 15


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


def test_many_writers_begin_and_write_one_chain(store: Store, postgres_url: str, tmp_path: Path) -> None:
    """Half of them lock another row before they record, half after: the log's lock is always the last, so that no two
    wait for each other."""
    settings = Settings(home=tmp_path, database_url=SecretStr(postgres_url))
    with store.session() as session:
        session.add(Account(name="paper", cash=0.0))
    failed: list[BaseException] = []
    at_once = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        try:
            at_once.wait(PATIENCE)
            for number in range(EACH):
                with store.session() as session:
                    if writer % 2:
                        _touch(session)
                    record(session, settings, "busy", writer=writer, number=number)
                    if not writer % 2:
                        _touch(session)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failed == []
    (checked,) = check_logs(store, settings)
    assert checked.reading.problems == []
    busy = [entry.facts for entry in checked.reading.entries if entry.kind == "busy"]
    for writer in range(WRITERS):
        assert [facts["number"] for facts in busy if facts["writer"] == writer] == list(range(EACH))
    with store.read() as session:
        assert session.get_one(Account, "paper").cash == WRITERS * EACH


def _touch(session: Session) -> None:
    account = session.get_one(Account, "paper", with_for_update=True, populate_existing=True)
    account.cash += 1
    session.add(account)


def test_a_mandate_holds_until_it_is_taken_back(store: Store, postgres_url: str, tmp_path: Path) -> None:
    key = arming.signing_key(tmp_path / "mandate.key")
    public = arming.public_text(key)
    settings = Settings(home=tmp_path, database_url=SecretStr(postgres_url), mandate_public_key=public)
    limits = {"max_notional": Decimal(10_000), "max_orders": 3, "symbols": ["IBM"], "hours": 1.0, "by": "ann"}
    terms = arming.arm(store, settings, key, "alpaca-live", **limits)  # type: ignore[arg-type]
    with store.read() as session:
        assert in_force(session, settings, "alpaca-live") == terms
    assert halting.disarm(store, settings, "alpaca-live", "bob") == [terms.version]
    with store.read() as session:
        assert not isinstance(in_force(session, settings, "alpaca-live"), MandateTerms)
