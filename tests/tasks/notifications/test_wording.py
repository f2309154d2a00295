"""A sentence, a time and a link for each kind of notice, and the title of one and of several."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.events import DESK
from chordesk.models.notifications import NoticeKind
from chordesk.models.tables.notifications import Notice
from chordesk.tasks.notifications.wording import LONGEST, Wording, quoted, symbol

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
    NoticeKind.PLAN_REVIEW: (
        {"account": "paper", "order": ORDER["order"], "review": "2010-08-26"},
        "IBM on paper: the review of its plan is due since 2010-08-26; its research is due with it",
        "/orders/230cfea0-2e99",
    ),
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
    NoticeKind.ROGUE_CALL: (
        {"role": "risk", "subject": "IBM", "tool": "orders_submit", "kind": "unknown", "acts": True},
        "risk on IBM, run 01a208f22ccf13f0, called orders submit: nothing was done, and its orders wait for a person",
        f"/runs/{RUN}",
    ),
    NoticeKind.BUDGET_REACHED: (
        {"scope": "run", "used": 3_000_100, "limit": 3_000_000},
        "run 01a208f22ccf13f0 has used 3,000,100 of 3,000,000 tokens; turns are skipped",
        f"/runs/{RUN}",
    ),
    NoticeKind.FORGED: (
        {"count": 3, "why": "it has no signature"},
        "ops refused 3 messages that the desk did not sign: it has no signature. "
        "Somebody else writes to Redis, or a process has another key",
        "/fleet",
    ),
    NoticeKind.ROOM: (
        {"state": "out", "what": "space", "where": "home, logs (/srv/desk)"},
        "host has no room, and takes no step until there is some: space home, logs ( srv desk)",
        "/fleet",
    ),
}
SUBJECTS = {
    NoticeKind.PLAN_REVIEW: "IBM",
    NoticeKind.ROOM: "host",
    NoticeKind.FORGED: "ops",
    NoticeKind.WORKER_LOST: "research@host:123:abc",
    NoticeKind.MODEL_PARKED: "gpt-5.5",
}


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_sentence_has_its_time_and_its_link(kind: NoticeKind) -> None:
    facts, sentence, way = CASES[kind]
    of_run = kind not in SUBJECTS and kind not in (NoticeKind.HALT, NoticeKind.RESUME)
    notice = Notice(
        key="k", kind=kind, run_id=RUN if of_run else DESK, subject=SUBJECTS.get(kind, ""), facts=facts, occurred_at=AT
    )
    assert WORDING.line(notice) == f"Nov 23, 14:05 EST: {sentence}\nhttp://desk.example/#{way}"
    assert Wording(WORDING.zone, None).line(notice) == f"Nov 23, 14:05 EST: {sentence}"


MEANT = re.compile(r"[<>&*_`~#@|\[\]{}\\/!\"\n\r\t]")
LINK = re.compile(r"(?i)://|\.[^\W\d_]{2}|mailto:")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the day's loss is 3.5 % of 10,000.00", "the day's loss is 3.5 % of 10,000.00"),
        ("<!channel> <@U123> @everyone", "channel U123 everyone"),
        ("[click](http://evil.com/x)", "click (http: evil. com x)"),
        ("**bold** _it_ `code` ~~no~~", "bold it code no"),
        ("see evil.com or evil\u3002com or evil\uff0e\uff43om", "see evil. com or evil com or evil. com"),
        (":tada: 12:30", ": tada: 12:30"),
        ("line\nAPPROVED\x1b[2J\u202e", "line APPROVED 2J"),
        ("account PA3X12345678 and 123456789", "account (number left out) and (number left out)"),
        ("key sk-abcdefgh12345678 refused", "key refused"),
        ("größer als 5 円", "größer als 5 円"),
        (None, ""),
    ],
)
def test_others_text_is_plain(text: str | None, shown: str) -> None:
    assert quoted(text) == shown


@given(st.text(max_size=400))
def test_no_text_keeps_a_sign_with_a_meaning(text: str) -> None:
    for shown in (quoted(text), symbol(text)):
        assert LINK.search(shown) is None
        assert len(shown) <= LONGEST
    assert MEANT.search(quoted(text)) is None


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        ("AAPL", "AAPL"),
        ("BRK.B", "BRK.B"),
        ("^GSPC", "^GSPC"),
        ("AAPL100821C00250000", "AAPL100821C00250000"),
        ("EVIL.COM", "EVIL. COM"),
        ("<b>IBM</b>", "b IBM b"),
        ("http://evil.com", "http: evil. com"),
    ],
)
def test_a_symbol_stays_if_it_is_one(given_: str, shown: str) -> None:
    assert symbol(given_) == shown
