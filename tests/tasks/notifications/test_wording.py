"""A sentence, a time and a link for each kind of notice, and the title of one and of several."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from chordesk.models.events import DESK
from chordesk.models.notifications import NoticeKind
from chordesk.models.tables.notifications import Notice
from chordesk.tasks.notifications.wording import Wording, title

AT = dt.datetime(2026, 11, 23, 19, 5, tzinfo=dt.UTC)
UNTIL = "2026-11-23T19:20:00+00:00"
RUN = "01a208f22ccf13f02690cae5671766da"
ORDER = {"order": "230cfea0-2e99", "account": "paper", "symbol": "IBM", "side": "sell", "quantity": 2.5}
WORDING = Wording(ZoneInfo("America/New_York"), "http://desk.example/")

CASES: dict[NoticeKind, tuple[dict[str, Any], str, str]] = {
    NoticeKind.ORDER_WAITING: (
        {"kind": "order", "order": "o", "symbol": "IBM", "notional": 1234.5, "expires_at": UNTIL},
        "an order on IBM for 1,234.50 waits for a person until Nov 23, 14:20 EST; see: desk approvals",
        "/approvals",
    ),
    NoticeKind.REQUEST_WAITING: (
        {"kind": "command", "what": "rm -rf /", "expires_at": UNTIL},
        "a model of run 01a208f22ccf13f0 waits for a person until Nov 23, 14:20 EST; see: desk approvals",
        "/approvals",
    ),
    NoticeKind.HALT: (
        {"account": "paper", "state": "halted", "why": "a drill", "by": "me@host"},
        "account paper is halted, by me host: a drill",
        "/account",
    ),
    NoticeKind.RESUME: (
        {"account": "paper", "state": "active", "why": "", "by": "me"},
        "account paper trades again, by me",
        "/account",
    ),
    NoticeKind.ORDER_UNKNOWN: (
        {**ORDER, "state": "unknown"},
        "sell 2.5 IBM on paper: sent, and the broker gave no answer; the desk goes on asking for it",
        "/orders/230cfea0-2e99",
    ),
    NoticeKind.ORDER_REJECTED: (
        {**ORDER, "state": "rejected", "why": "not enough <b>cash</b> in 123456789"},
        "sell 2.5 IBM on paper: rejected by the broker: not enough b cash b in (number left out)",
        "/orders/230cfea0-2e99",
    ),
    NoticeKind.FILL: ({**ORDER, "price": 126.0}, "Sold 2.5 IBM at 126.00 on paper", "/orders/230cfea0-2e99"),
    NoticeKind.RUN_FINISHED: (
        {"kind": "screen", "state": "done", "notes": ["all well"]},
        "screen 01a208f22ccf13f0 is done",
        f"/runs/{RUN}",
    ),
    NoticeKind.RUN_PARTIAL: (
        {"kind": "screen", "state": "partial", "notes": ["one", "risk of KO failed"]},
        "screen 01a208f22ccf13f0 is partial: risk of KO failed",
        f"/runs/{RUN}",
    ),
    NoticeKind.RUN_FAILED: ({"kind": "trade", "state": "failed"}, "trade 01a208f22ccf13f0 has failed", f"/runs/{RUN}"),
    NoticeKind.WORKER_LOST: (
        {},
        "worker research on host renews its steps no more; they are tried elsewhere",
        "/fleet",
    ),
    NoticeKind.MODEL_PARKED: (
        {"seconds": 12.4},
        "no turn starts on gpt-5.5 for 12 s: its provider limits the rate",
        "/fleet",
    ),
    NoticeKind.BUDGET_REACHED: (
        {"scope": "run", "used": 3_000_100, "limit": 3_000_000},
        "run 01a208f22ccf13f0 has used 3,000,100 of 3,000,000 tokens; turns are skipped",
        f"/runs/{RUN}",
    ),
}
SUBJECTS = {NoticeKind.WORKER_LOST: "research@host:123:abc", NoticeKind.MODEL_PARKED: "gpt-5.5"}


def test_each_kind_is_here() -> None:
    assert CASES.keys() == set(NoticeKind)


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_sentence_has_its_time_and_its_link(kind: NoticeKind) -> None:
    facts, sentence, way = CASES[kind]
    of_run = kind not in SUBJECTS and kind not in (NoticeKind.HALT, NoticeKind.RESUME)
    notice = Notice(
        key="k", kind=kind, run_id=RUN if of_run else DESK, subject=SUBJECTS.get(kind, ""), facts=facts, occurred_at=AT
    )
    assert WORDING.line(notice) == f"Nov 23, 14:05 EST: {sentence}\nhttp://desk.example/#{way}"
    assert Wording(WORDING.zone, None).line(notice) == f"Nov 23, 14:05 EST: {sentence}"


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_title_is_of_one_or_of_several(kind: NoticeKind) -> None:
    one, several = title({kind: 1}), title({kind: 3})
    assert one.startswith("Desk: ")
    assert several.startswith("Desk: 3 ")
    assert title({kind: 3, "other": 1}) == "Desk: 4 more events"
