"""Questions about alerts and watch lists: answered with what there is, and nothing else is taken for one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.alerts.tables import AlertsAlert, AlertsState, AlertsWatchlist
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.alerts.answering import answer
from tests.parts import HERE, of_feature

DIP = "dip: price below 150 on AAPL; armed, fired 2 times"
BUSY = "busy: volume 2x on watchlist:tech, then research; off, has not fired"
TECH = "watch list tech, 2 symbols: AAPL, MSFT"


@pytest.fixture
def said(store: Store, tmp_path: Path) -> Any:
    with store.session() as session:
        given: dict[str, Any] = {"written_on": dt.date(2026, 11, 27), "by": "ada"}
        session.add(AlertsAlert(name="dip", subject="AAPL", condition="price below 150", **given))
        off: dict[str, Any] = {"enabled": False, "action": "research"}
        session.add(AlertsAlert(name="busy", subject="watchlist:tech", condition="volume 2x", **off, **given))
        session.add(AlertsState(alert="dip", symbol="AAPL", market="replay", armed=True, fired=2))
        session.add(AlertsWatchlist(name="tech", symbols=["AAPL", "MSFT"], by="ada"))
    settings = Settings(home=tmp_path, market="replay")
    # As a person asks: through the look-ups of questions, where they are here.
    asked = of_feature("chordesk.tasks.asking.lookup:answer") if "asking" in HERE else answer
    return lambda text: asked(settings, store, None, text)


@pytest.mark.parametrize(
    ("text", "intent", "lines"),
    [
        ("my alerts", "alerts", [BUSY, DIP]),
        ("which alerts are set on $aapl?", "alerts", [DIP]),
        ("which alerts do we have on IBM", "alerts", ["no alert is named 'IBM' or on it"]),
        ("watch list tech", "watchlists", [TECH]),
        ("What is on the watchlist tech?", "watchlists", [TECH]),
        ("what is on the tech watch list", "watchlists", [TECH]),
        ("my watch lists", "watchlists", [TECH]),
        ("watch list banks", "watchlists", ["there is no watch list 'banks'; there are tech"]),
    ],
)
def test_what_there_is_is_said(said: Any, text: str, intent: str, lines: list[str]) -> None:
    found = said(text)
    assert (found.intent, sorted(found.text.splitlines())) == (intent, lines)


@pytest.mark.parametrize(
    "text", ["delete my alerts", "delete watch list", "are my alerts worth it", "will my watch list tech rise"]
)
def test_what_asks_for_more_is_not_answered(said: Any, text: str) -> None:
    assert said(text).intent == ""
