"""Threads that write one row of a store at the same time."""

from __future__ import annotations

import threading

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import Account


def cash_after(store: Store, writers: int, times: int, *, lock: bool = False) -> float:
    """Let each of so many threads add 1 to an account's cash so many times, and return the cash. lock: with the row's
    lock."""
    with store.session() as session:
        session.add(Account(name="paper", cash=0.0))

    def add() -> None:
        for _ in range(times):
            with store.session() as session:
                session.get_one(Account, "paper", with_for_update=lock or None).cash += 1.0

    threads = [threading.Thread(target=add) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as session:
        return session.get_one(Account, "paper").cash
