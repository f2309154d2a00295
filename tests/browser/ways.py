"""The address of every view of a desk with a record: those of the menu, and each of the others with data of its own."""

from __future__ import annotations

import re

from chordesk.tasks.web.page.assets import STATIC
from tests.browser.kit import DeskPage
from tests.tasks.views.chain import parts

# All views that have no parameters.
_MENU = re.findall(r"path: '([^':]+)'", (STATIC / "app.js").read_text(encoding="utf-8"))


def all_ways(desk: DeskPage) -> list[str]:
    """Return the address of every view, after the #. The desk has a record."""
    record = desk.record
    assert record is not None
    with desk.service.client() as client:
        (waiting, *_) = client.get("/orders", params={"state": "approval_pending"}).json()
        order = waiting["order"]["id"]
        (decision,) = parts(client.get(f"/orders/{order}").json()["chain"], "decision")
        question = client.get(f"/runs/{record.episode}/board").json()["questions"][0]["id"]
        (resolved, *_) = client.get("/questions", params={"state": "resolved"}).json()
        screen = client.get(f"/runs/{record.backtest}").json()["backtest"]["rows"][0]["screen_run_id"]
        row = client.get(f"/runs/{desk.run}/table").json()["rows"][0]
    return [
        *_MENU,
        "/runs?start=screen",
        f"/runs/{desk.run}",
        f"/runs/{desk.flying}",
        f"/runs/{record.analysis}",
        f"/runs/{desk.run}?with={screen}",
        *(f"/settings?show={part}" for part in ("schedule", "limits", "doctor")),
        "/symbols/KO",
        f"/reports/{row['cells']['risk']['report_id']}",
        f"/verdicts/{row['verdict']['id']}",
        f"/orders/{order}",
        f"/threads/{decision['thread_id']}",
        f"/turns/{decision['turn_id']}",
        "/accounts/paper",
        f"/accounts/{record.account}",
        f"/runs/{record.episode}",
        f"/questions/{question}",
        f"/questions/{resolved['id']}",
        f"/scores?account={record.account}",
        f"/scores?show=scores&account={record.scored}",
        f"/scores/rating/BUY?account={record.scored}",
        *(f"/scores?show={part}" for part in ("questions", "episodes", "backtests")),
        f"/runs/{record.backtest}",
        "/nowhere",
    ]
