from __future__ import annotations

import datetime as dt

from chordesk.models.database.store import Store
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call, MakeContext
from tests.tools.ledger_rows import NOW, add_candidate, add_report, add_run, add_verdict

DAY = dt.timedelta(days=1)


def test_the_newest_of_each_role_and_the_newest_verdict(
    market: ReplayMarket, store: Store, make_context: MakeContext, call: Call
) -> None:
    with store.session() as session:
        for back, rating in ((5, "BUY"), (2, "CAUTION")):
            run = add_run(session, NOW - back * DAY)
            candidate = add_candidate(session, run, "AAPL")
            add_report(session, run, candidate, "risk", summary=f"risk {back} days ago")
            add_verdict(session, run, candidate, rating)
        old = add_run(session, NOW - 9 * DAY)
        add_report(session, old, add_candidate(session, old, "AAPL"), "quick", summary="s" * 900)
    answer = call(make_context(market, store), "report_latest", symbols=["AAPL", "MMM"])
    assert answer.payload["available"] is True
    assert not answer.has_data  # the desk's own reports are no data of the market
    (verdict,) = answer.payload["verdicts"]
    assert (verdict["symbol"], verdict["rating"]) == ("AAPL", "CAUTION")
    quick, risk = answer.payload["reports"]
    assert quick["summary"] == "s" * 600
    assert risk == {
        "symbol": "AAPL", "role": "risk", "verdict": "CONFIRMED", "confidence": "high", "summary": "risk 2 days ago",
        "keyRisks": ["one", "two"], "author": "rulebook (rules, no model)",
        "marketAt": (NOW - 2 * DAY).astimezone(dt.UTC).isoformat(), "runId": verdict["runId"],
    }  # fmt: skip
    assert answer.payload["missing"] == [{"symbol": "MMM", "what": "report", "reason": "the desk has none up to now"}]


def test_reports_that_do_not_count_are_not_seen(
    market: ReplayMarket, store: Store, make_context: MakeContext, call: Call
) -> None:
    """A later market time, another account, another market, and a role that did not complete."""
    with store.session() as session:
        for run in (
            add_run(session, NOW + dt.timedelta(seconds=1)),
            add_run(session, account="other"),
            add_run(session, market="yahoo"),
        ):
            candidate = add_candidate(session, run, "AAPL")
            add_report(session, run, candidate, "risk")
            add_verdict(session, run, candidate, "BUY")
        run = add_run(session)
        candidate = add_candidate(session, run, "AAPL")
        add_report(session, run, candidate, "risk", status="failed", verdict=None, confidence=None)
        add_report(session, run, candidate, "quick", market_at=NOW + DAY)
    answer = call(make_context(market, store), "report_latest", symbols=["AAPL"])
    assert answer.payload["available"] is False
    assert (answer.payload["verdicts"], answer.payload["reports"]) == ([], [])
