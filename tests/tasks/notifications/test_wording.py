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
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.notifications.wording import LONGEST, Wording, quoted, symbol

AT = dt.datetime(2026, 11, 23, 19, 5, tzinfo=dt.UTC)
UNTIL = "2026-11-23T19:20:00+00:00"
RUN = "01a208f22ccf13f02690cae5671766da"
ORDER = {"order": "230cfea0-2e99", "account": "paper", "symbol": "IBM", "side": "sell", "quantity": 2.5}
WORDING = Wording(ZoneInfo("America/New_York"), "http://desk.example/")

FACTS: dict[NoticeKind, tuple[dict[str, Any], str]] = {
    NoticeKind.ORDER_WAITING: (
        {"kind": "order", "order": "o", "symbol": "IBM", "notional": 1234.5, "expires_at": UNTIL}, "/approvals",
    ),
    NoticeKind.REQUEST_WAITING: ({"kind": "command", "what": "rm -rf /", "expires_at": UNTIL}, "/approvals"),
    NoticeKind.HALT: ({"account": "paper", "state": "halted", "why": "a drill", "by": "me@host"}, "/account"),
    NoticeKind.RESUME: ({"account": "paper", "state": "active", "why": "", "by": "me"}, "/account"),
    NoticeKind.ORDER_UNKNOWN: ({**ORDER, "state": "unknown"}, "/orders/230cfea0-2e99"),
    NoticeKind.ORDER_REJECTED: (
        {**ORDER, "state": "rejected", "why": "not enough <b>cash</b> in 123456789"}, "/orders/230cfea0-2e99",
    ),
    NoticeKind.FILL: ({**ORDER, "price": 126.0}, "/orders/230cfea0-2e99"),
    NoticeKind.PLAN_REVIEW: (
        {"account": "paper", "order": ORDER["order"], "review": "2010-08-26"}, "/orders/230cfea0-2e99",
    ),
    NoticeKind.RUN_FINISHED: ({"kind": "screen", "state": "done", "notes": ["all well"]}, f"/runs/{RUN}"),
    NoticeKind.RUN_PARTIAL: ({"kind": "screen", "state": "partial", "notes": ["one", "KO failed"]}, f"/runs/{RUN}"),
    NoticeKind.RUN_FAILED: ({"kind": "trade", "state": "failed"}, f"/runs/{RUN}"),
    NoticeKind.WORKER_LOST: ({}, "/fleet"),
    NoticeKind.MODEL_PARKED: ({"seconds": 12.4}, "/fleet"),
    NoticeKind.ROGUE_CALL: (
        {"role": "risk", "subject": "IBM", "tool": "orders_submit", "kind": "unknown", "acts": True}, f"/runs/{RUN}",
    ),
    NoticeKind.BUDGET_REACHED: ({"scope": "run", "used": 3_000_100, "limit": 3_000_000}, f"/runs/{RUN}"),
    NoticeKind.FORGED: ({"count": 3, "why": "it has no signature"}, "/fleet"),
    NoticeKind.BACKUP_FAILED: ({"place": "/backups/1", "why": "it is damaged"}, "/fleet"),
    NoticeKind.ROOM: ({"state": "out", "what": "space", "where": "home, logs (/srv/desk)"}, "/fleet"),
    NoticeKind.PROCESS: (
        {"state": "frozen", "pid": 12, "seconds": 45, "why": "stopped by a signal; `kill -CONT 12` lets it go on"},
        "/fleet",
    ),
}  # fmt: skip
OF_NO_RUN = {
    NoticeKind.BACKUP_FAILED: "",
    NoticeKind.PLAN_REVIEW: "IBM", NoticeKind.ROOM: "host", NoticeKind.PROCESS: "beat", NoticeKind.FORGED: "ops",
    NoticeKind.HALT: "", NoticeKind.RESUME: "", NoticeKind.WORKER_LOST: "research@host:123:abc",
    NoticeKind.MODEL_PARKED: "gpt-5.5",
}  # fmt: skip


def line(kind: NoticeKind, wording: Wording = WORDING) -> str:
    run, subject = (DESK, OF_NO_RUN[kind]) if kind in OF_NO_RUN else (RUN, "")
    return wording.line(Notice(key="k", kind=kind, run_id=run, subject=subject, facts=FACTS[kind][0], occurred_at=AT))


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_sentence_has_its_time_and_its_link(kind: NoticeKind) -> None:
    sentence = line(kind, Wording(WORDING.zone, None))
    assert re.match(r"Nov 23, 14:05 EST: \w", sentence)
    assert line(kind) == f"{sentence}\nhttp://desk.example/#{FACTS[kind][1]}"
    assert not set("<>@") & set(sentence)
    assert "123456789" not in sentence


def test_a_waiting_order_a_fill_and_a_halt_have_their_figures() -> None:
    assert "IBM for 1,234.50 waits for a person until Nov 23, 14:20 EST" in line(NoticeKind.ORDER_WAITING)
    assert "Sold 2.5 IBM at 126.00 on paper" in line(NoticeKind.FILL)
    assert "account paper is halted, by me host: a drill" in line(NoticeKind.HALT)
    assert "beat (process 12) is frozen for 45 s: stopped by a signal" in line(NoticeKind.PROCESS)


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
