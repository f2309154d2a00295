"""The course of a run over HTTP: of a screen that real workers finished, and of one that is only begun."""

from __future__ import annotations

import json
from typing import Any

from tests.builders import a_run
from tests.tasks.web.routes.history.conftest import UNIVERSE, Screened
from tests.tasks.web.test_security import problem

STAGES = ["universe", "hits", "candidates", "verdicts", "orders", "fills"]


def test_a_row_has_the_progress_tokens_and_money_of_its_run(screened: Screened) -> None:
    row = next(one for one in screened.get("/runs", limit=1000) if one["run"]["id"] == screened.run_id)
    whole = screened.get(f"/runs/{screened.run_id}")
    assert (row["final"], row["steps"]) == (True, row["steps_ended"])
    assert row["steps"] == sum(total for _, total in whole["progress"]["steps"].values())
    assert (row["turns"], row["tokens"]) == (whole["progress"]["turns"], whole["progress"]["tokens"])
    assert row["cost"] == whole["summary"]["cost"] == whole["cost"]
    assert row["symbols"] == [one["symbol"] for one in whole["candidates"]]


def test_the_list_is_narrowed_and_counts_the_matches(screened: Screened) -> None:
    symbol = screened.get(f"/runs/{screened.run_id}")["candidates"][0]["symbol"]
    row = next(one for one in screened.get("/runs", limit=1000) if one["run"]["id"] == screened.run_id)
    with screened.service.store.session() as session:
        a_run(session, kind="research", state="failed", finished_at=None)
    by_symbol = screened.get("/runs", symbol=symbol.lower(), limit=1000)
    assert screened.run_id in {one["run"]["id"] for one in by_symbol}
    assert all(symbol in one["symbols"] for one in by_symbol)
    first = screened.client.get("/runs", params={"symbol": symbol.lower(), "limit": 1})
    assert first.json() == by_symbol[:1]
    assert first.headers["X-Total-Count"] == str(len(by_symbol))
    assert screened.get("/runs", symbol="NOPE") == []
    assert screened.get("/runs", day="1999-01-04") == []
    assert screened.client.get("/runs", params={"day": "1999-13-04"}).status_code == 422
    market_day = screened.get("/")["standing"]["day"]
    assert screened.run_id in {one["run"]["id"] for one in screened.get("/runs", market_day=market_day)}
    rows = screened.get("/runs", short=True, limit=1000)
    (short,) = [one for one in rows if one["run"]["id"] == screened.run_id]
    assert [short["run"][name] for name in ("settings", "params", "summary")] == [None, {}, {}]
    assert short["tokens"] == row["tokens"]


def test_the_funnel_counts_what_it_lists(screened: Screened) -> None:
    found = screened.get(f"/runs/{screened.run_id}/funnel")
    assert [one["stage"] for one in found["stages"]] == STAGES
    stages = {one["stage"]: one for one in found["stages"]}
    summary = screened.get(f"/runs/{screened.run_id}")["summary"]
    assert stages["universe"]["count"] == len(UNIVERSE) == summary["symbols"]
    assert stages["hits"]["count"] == summary["hits"] > 0
    assert stages["candidates"]["count"] == summary["candidates"] > 0
    assert stages["verdicts"]["labels"] == summary["verdicts"]
    for stage in found["stages"]:
        assert len(stage["items"]) == stage["count"]
        assert sum(stage["labels"].values()) in (0, stage["count"])
    hit = next(one for one in stages["hits"]["items"])
    assert hit["symbol"] in UNIVERSE
    order = stages["orders"]["items"][0]
    assert screened.get(f"/orders/{order['id']}")["order"]["symbol"] == order["symbol"]


def test_the_timeline_has_every_step_with_its_workers_and_turns(screened: Screened) -> None:
    found = screened.get(f"/runs/{screened.run_id}/timeline")
    row = next(one for one in screened.get("/runs", limit=1000) if one["run"]["id"] == screened.run_id)
    assert len(found["steps"]) == row["steps"]
    assert sum(len(attempt["turns"]) for step in found["steps"] for attempt in step["attempts"]) == row["turns"]
    assert found["expected"] == []
    assert all(step["step"]["started_at"] and step["attempts"] for step in found["steps"])
    workers = {attempt["worker"] for step in found["steps"] for attempt in step["attempts"]}
    assert workers == set(found["workers"])
    assert len(workers) > 1
    for step in found["steps"]:
        for attempt in step["attempts"]:
            assert attempt["waited"] is None or attempt["waited"] >= 0
            assert not attempt["taken_over"]


def test_the_table_has_a_cell_a_role_and_the_rule_of_each_verdict(screened: Screened) -> None:
    found = screened.get(f"/runs/{screened.run_id}/table")
    whole = screened.get(f"/runs/{screened.run_id}")
    assert [row["candidate"]["symbol"] for row in found["rows"]] == [row["symbol"] for row in whole["candidates"]]
    assert found["roles"][0] == "quick"
    for row, seen in zip(found["rows"], whole["candidates"], strict=True):
        assert set(row["cells"]) <= set(found["roles"])
        assert row["verdict"]["rating"] == seen["verdict"]
        assert row["rule"]
        assert row["lenses"] == sorted(set(seen["screeners"]))
        counted = [cell for cell in row["cells"].values() if cell["counts"]]
        assert counted
        assert sum(cell["tokens"] for cell in counted) <= seen["tokens"]
    rejected = [row for row in found["rows"] if any(cell["verdict"] == "REJECT" for cell in row["cells"].values())]
    assert all(row["verdict"]["rating"] == "PASS" and "REJECT" in row["rule"] for row in rejected)


def test_two_runs_of_a_kind_are_compared(screened: Screened) -> None:
    with screened.service.store.session() as session:
        other, trade = a_run(session, kind="screen").id, a_run(session, kind="trade").id
    found = screened.get(f"/runs/{screened.run_id}/compare/{other}")
    funnel = screened.get(f"/runs/{screened.run_id}/funnel")["stages"]
    assert (found["ours"]["run"]["id"], found["theirs"]["run"]["id"]) == (screened.run_id, other)
    assert found["only_ours"] == sorted(one["symbol"] for one in funnel[2]["items"])
    assert found["only_theirs"] == []
    assert all(one["changed"] and one["theirs"] is None for one in found["candidates"])
    assert sum(one["ours_tokens"] for one in found["roles"]) == found["ours"]["tokens"]
    same = screened.get(f"/runs/{screened.run_id}/compare/{screened.run_id}")
    assert (same["only_ours"], same["settings"], same["params"]) == ([], [], [])
    assert not any(one["changed"] for one in same["candidates"])
    refused = screened.client.get(f"/runs/{screened.run_id}/compare/{trade}")
    assert problem(refused, 409) == "usage_error"
    assert "compare it with another screen" in refused.json()["remedy"]


def table_row(screened: Screened) -> dict[str, Any]:
    row: dict[str, Any] = screened.get(f"/runs/{screened.run_id}/table")["rows"][0]
    return row


def test_reports_are_listed_the_newest_first_and_by_what_they_are(screened: Screened) -> None:
    row = table_row(screened)
    rows = screened.get("/reports", symbol=row["candidate"]["symbol"].lower(), run=screened.run_id, limit=100)
    assert {one["id"] for one in rows} == {cell["report_id"] for cell in row["cells"].values()}
    assert [one["id"] for one in rows] == sorted((one["id"] for one in rows), reverse=True)
    assert [one["role"] for one in screened.get("/reports", role="risk", run=screened.run_id, limit=1)] == ["risk"]
    assert problem(screened.client.get("/reports", params={"run": "ffff"}), 404) == "not_found"


def test_each_figure_of_a_report_leads_to_the_tool_answer_that_has_it(screened: Screened) -> None:
    cell = table_row(screened)["cells"]["risk"]
    found = screened.get(f"/reports/{cell['report_id']}")
    assert (found["turn"]["thread_id"], found["turn"]["id"]) == (cell["thread_id"], cell["turn_id"])
    report = found["report"]
    assert report["answer"]["summary"] == report["summary"]
    assert (report["grounding"]["figures"], report["grounding"]["supported"]) == (cell["figures"], cell["supported"])
    calls = {call["id"]: call for call in found["calls"]}
    cited = [one for one in found["cited"] if one["source"] == "tool"]
    assert cited
    for one in cited:
        call = calls[one["call_id"]]
        assert (call["tool"], call["ordinal"]) == (one["tool"], one["call"])
        if one["text"] == "summary":
            assert report["summary"][one["start"] : one["end"]] == one["figure"]
        answer = json.loads(call["output"])
        for part in one["path"].split("/")[1:]:
            answer = answer[int(part)] if isinstance(answer, list) else answer[part]
        assert str(one["value"]).removesuffix(".0") in str(answer)
    assert [one["run_id"] for one in found["verdicts"]] == [screened.run_id]
    assert problem(screened.client.get("/reports/ffff"), 404) == "not_found"


def test_a_verdict_names_its_rule_its_reports_and_its_orders(screened: Screened) -> None:
    row = table_row(screened)
    found = screened.get(f"/verdicts/{row['verdict']['id']}")
    assert (found["verdict"], found["rule"]) == (row["verdict"], row["rule"])
    assert {one["role"] for one in found["reports"]} == {
        role for role, cell in row["cells"].items() if cell["counts"]
    }  # fmt: skip
    assert set(found["orders"]) >= {one["id"] for one in row["orders"] if one["state"] != "denied"}
    assert found["candidate"] == row["candidate"]
    assert problem(screened.client.get("/verdicts/ffff"), 404) == "not_found"
