"""Notices come with the transaction of their event, once for each cause, and not from backtests."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import select

from chordesk.models import event_log, notices
from chordesk.models.database.store import Store
from chordesk.models.events import DESK, Envelope, EventType, event
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice

ORDER = {"order": "o", "account": "paper", "symbol": "IBM", "action": "open", "side": "buy", "quantity": 1.0}
DAY = dt.timedelta(days=1)


def found(store: Store) -> list[Notice]:
    with store.read() as session:
        return list(session.exec(select(Notice).order_by(Notice.occurred_at)).all())


def happens(store: Store, *events: Envelope) -> None:
    with store.session() as session:
        event_log.append(session, events)


@pytest.mark.parametrize(
    ("one", "kind", "subject"),
    [
        (event(EventType.RUN_COMPLETED, "r", kind="screen", state="done", account="paper"), "run_finished", "screen"),
        (event(EventType.RUN_COMPLETED, "r", kind="trade", state="stopped", account="paper"), "run_finished", "trade"),
        (event(EventType.RUN_COMPLETED, "r", kind="screen", state="partial", account="paper"), "run_partial", "screen"),
        (event(EventType.RUN_COMPLETED, "r", kind="screen", state="failed", account="paper"), "run_failed", "screen"),
        (event(EventType.RUN_COMPLETED, "r", kind="backtest", state="done"), "run_finished", "backtest"),
        (event(EventType.ORDER_TRADING, DESK, account="paper", state="halted", why="", by="me"), "halt", "paper"),
        (event(EventType.ORDER_TRADING, DESK, account="paper", state="reducing", why="", by="me"), "halt", "paper"),
        (event(EventType.ORDER_TRADING, DESK, account="paper", state="active", why="", by="me"), "resume", "paper"),
        (event(EventType.ORDER_STATE, "r", state="unknown", **ORDER), "order_unknown", "IBM"),
        (event(EventType.ORDER_STATE, "r", state="rejected", **ORDER), "order_rejected", "IBM"),
        (event(EventType.ORDER_FILL, "r", **ORDER), "fill", "IBM"),
        (event(EventType.APPROVAL_ASKED, "r", kind="order", symbol="IBM"), "order_waiting", "IBM"),
        (event(EventType.APPROVAL_ASKED, "r", kind="command"), "request_waiting", "command"),
        (event(EventType.STATUS_AGAIN, "r", outcome="lost", lost="a@host:1:x"), "worker_lost", "a@host:1:x"),
    ],
)  # fmt: skip
def test_each_kind_has_its_event(store: Store, one: Envelope, kind: str, subject: str) -> None:
    happens(store, one)
    (notice,) = found(store)
    assert (notice.kind, notice.subject, notice.taken_at) == (kind, subject, None)


@pytest.mark.parametrize(
    "one",
    [
        event(EventType.RUN_STARTED, "r", kind="screen"),
        event(EventType.ORDER_STATE, "r", state="filled", **ORDER),
        event(EventType.STATUS_AGAIN, "r", outcome="again", why="slow"),
        event(EventType.STATUS_ENDED, "r", state="done"),
        event(EventType.ORDER_FILL, "r", **{**ORDER, "account": "backtest-1"}),
        event(EventType.RUN_COMPLETED, "r", kind="screen", state="done", account="backtest-1"),
    ],
)
def test_other_events_and_those_of_backtests_have_none(store: Store, one: Envelope) -> None:
    happens(store, one)
    assert found(store) == []


def test_a_transaction_that_fails_leaves_neither_event_nor_notice(store: Store) -> None:
    with pytest.raises(RuntimeError), store.session() as session:
        event_log.append(session, [event(EventType.ORDER_FILL, "r", **ORDER)])
        raise RuntimeError
    assert found(store) == []


def test_a_lost_worker_is_one_notice_whatever_it_held(store: Store) -> None:
    for run in ("r", "s"):
        again = [event(EventType.STATUS_AGAIN, run, outcome="lost", lost="a@h:1:x") for _ in range(3)]
        happens(store, *again, event(EventType.STATUS_ENDED, run, state="failed", lost="a@h:1:x"))
    assert [(one.subject, one.run_id) for one in found(store)] == [("a@h:1:x", DESK)]


def test_a_notice_is_written_once_by_its_key(store: Store) -> None:
    for _ in range(2):
        with store.session() as session:
            notices.note(session, Notice(key="k", kind=NoticeKind.MODEL_PARKED, subject="m", run_id=DESK))
    with store.read() as session:
        assert notices.is_noted(session, "k")
        assert not notices.is_noted(session, "j")
    assert len(found(store)) == 1


def test_old_ones_are_trimmed(store: Store) -> None:
    happens(
        store, event(EventType.ORDER_FILL, "r", utcnow() - 40 * DAY, **ORDER), event(EventType.ORDER_FILL, "r", **ORDER)
    )
    with store.session() as session:
        assert notices.trim(session, utcnow() - 30 * DAY) == 1
    assert len(found(store)) == 1
