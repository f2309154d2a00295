"""Statements that are composed once, by however many threads at the same time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from chordesk.models.tables.columns import composed_once

THREADS = 8


def test_threads_that_ask_at_the_same_time_get_one_statement() -> None:
    together, composed = threading.Barrier(THREADS), []

    @composed_once
    def statement(*, lost: bool = False) -> object:
        time.sleep(0.05)  # the others ask meanwhile
        composed.append(lost)
        return object()

    def ask() -> object:
        together.wait()
        return statement(lost=True)

    with ThreadPoolExecutor(THREADS) as threads:
        found = {id(one.result()) for one in [threads.submit(ask) for _ in range(THREADS)]}
    assert len(found) == 1
    assert composed == [True]
    assert statement() is not statement(lost=True)
