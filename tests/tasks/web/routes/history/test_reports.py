"""Reports and verdicts over HTTP: what each figure rests on, and what a rating rests on."""

from __future__ import annotations

import json
from typing import Any

from tests.tasks.web.routes.history.conftest import Screened
from tests.tasks.web.test_security import problem


def table_row(screened: Screened) -> dict[str, Any]:
    row: dict[str, Any] = screened.get(f"/runs/{screened.run_id}/table")["rows"][0]
    return row


def test_reports_are_listed_the_newest_first_and_by_what_they_are(screened: Screened) -> None:
    row = table_row(screened)
    rows = screened.get("/reports", symbol=row["symbol"].lower(), run=screened.run_id, limit=100)
    assert {one["id"] for one in rows} == {cell["report_id"] for cell in row["cells"].values()}
    assert [one["id"] for one in rows] == sorted((one["id"] for one in rows), reverse=True)
    assert [one["role"] for one in screened.get("/reports", role="risk", run=screened.run_id, limit=1)] == ["risk"]
    assert problem(screened.client.get("/reports", params={"run": "ffff"}), 404) == "not_found"


def test_each_figure_of_a_report_leads_to_the_tool_answer_that_has_it(screened: Screened) -> None:
    cell = table_row(screened)["cells"]["risk"]
    found = screened.get(f"/reports/{cell['report_id']}")
    assert (found["turn"]["thread_id"], found["turn"]["id"]) == (cell["thread_id"], cell["turn_id"])
    assert found["answer"]["summary"] == found["summary"]
    assert (found["figures"], found["supported"]) == (cell["figures"], cell["supported"])
    calls = {call["id"]: call for call in found["calls"]}
    cited = [one for one in found["cited"] if one["source"] == "tool"]
    assert cited
    for one in cited:
        call = calls[one["call_id"]]
        assert (call["tool"], call["ordinal"]) == (one["tool"], one["call"])
        assert found["summary"][one["start"] : one["end"]] == one["figure"]
        answer = json.loads(call["output"])
        for part in one["path"].split("/")[1:]:
            answer = answer[int(part)] if isinstance(answer, list) else answer[part]
        assert str(one["value"]).removesuffix(".0") in str(answer)
    assert [one["run_id"] for one in found["verdicts"]] == [screened.run_id]
    assert problem(screened.client.get("/reports/ffff"), 404) == "not_found"


def test_a_verdict_names_its_rule_its_reports_and_its_orders(screened: Screened) -> None:
    row = table_row(screened)
    found = screened.get(f"/verdicts/{row['verdict']['id']}")
    for name in ("rating", "confidence", "rule", "missing"):
        assert found[name] == row["verdict"][name]
    assert {one["role"] for one in found["reports"]} == {
        role for role, cell in row["cells"].items() if cell["counts"]
    }  # fmt: skip
    assert set(found["orders"]) >= {one["id"] for one in row["orders"] if one["state"] != "denied"}
    assert (found["symbol"], found["origin"], found["rank"]) == (row["symbol"], row["origin"], row["rank"])
    assert problem(screened.client.get("/verdicts/ffff"), 404) == "not_found"
