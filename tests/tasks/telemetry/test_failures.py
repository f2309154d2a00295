"""Turns that fail, in this process, with the real app-server: the events that they become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from sqlmodel import select

from chordesk.models.tables.runs import Turn
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.reporting import run_report
from tests.fakes.responses import FakeResponses, Reply, Silence, Status, Text
from tests.patience import PATIENCE
from tests.stack import processes, wait_for
from tests.tasks.engine.steps import get
from tests.tasks.worker.test_turns import Silent

DEADLINE = 20.0  # of a step: a busy machine takes seconds to start the app-server


@pytest.fixture(scope="module")
def failing() -> Iterator[Silent]:
    with (
        FakeResponses(lambda body: Silence(60.0)) as model,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url) as desk,
    ):
        # Unchecked: a turn's own limit is longer here than the step's, so that the step's is what ends it.
        entries = {"telemetry_file": desk.home / "telemetry.jsonl", "step_deadline_seconds": DEADLINE}
        app = create_app(desk.settings.model_copy(update=entries), "test")
        try:
            yield Silent(app, model)
        finally:
            app.desk.close()
            app.close()


def lines(desk: Silent, step: str) -> list[dict[str, Any]]:
    """Return the telemetry of a step's run."""
    path = desk.app.desk.settings.telemetry_file
    assert path is not None
    run_id = get(desk.store, step).run_id
    if not path.exists():
        return []  # nothing has been worth a line yet
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if row["run_id"] == run_id]


def failures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is no answer of a tool: code has asked those of a role before its turn."""
    assert "tool.invocation" in {row["event"] for row in rows}
    return [row for row in rows if row["event"] != "tool.invocation"]


def lines_of(desk: Silent, symbol: str, reply: Reply) -> list[dict[str, Any]]:
    """Return the telemetry of a quick report with these replies of the model."""
    desk.model.policy = lambda body: reply
    step, _ = desk.opened(symbol, attempts=2)
    work(desk.app, step, run_report)
    return lines(desk, step)


def test_a_provider_failure_is_recorded_with_its_next_try(failing: Silent) -> None:
    failing.model.policy = lambda body: Status(503)
    step, _ = failing.opened("CVX", attempts=2)
    work(failing.app, step, run_report)

    def errors() -> list[dict[str, Any]]:
        return [row for row in lines(failing, step) if row["event"] == "codex.error"]

    wait_for(lambda: bool(errors()) and not errors()[-1]["will_retry"], "the last error is recorded")
    found = errors()
    assert [row["will_retry"] for row in found] == [True] * (len(found) - 1) + [False]
    (failed,) = [row for row in lines(failing, step) if row["event"] == "codex.turn.failed"]
    assert failed["duration_ms"] > 0
    for row in (*found, failed):
        assert (row["kind"], row["mode"], row["role"], row["symbol"]) == ("overloaded", "research", "quick", "CVX")
        assert (row["thread_id"], row["turn_id"]) == (failed["thread_id"], failed["turn_id"])
        assert "503" in row["error"]


def test_a_turn_without_usable_figures_is_recorded(failing: Silent) -> None:
    view = json.dumps({"verdict": "REJECT", "confidence": "high", "summary": "No.", "keyRisks": []})
    odd = {"input_tokens": -5, "output_tokens": 7, "total_tokens": -1}
    found = lines_of(failing, "GE", Text(view, usage=odd))
    (missing,) = [row for row in found if row["event"] == "codex.usage.missing"]
    assert missing["fields"] == ["input_tokens", "total_tokens"]
    assert (missing["role"], missing["symbol"]) == ("quick", "GE")
    with failing.store.read() as session:
        (turn,) = session.exec(select(Turn).where(Turn.run_id == missing["run_id"])).all()
    assert (turn.input_tokens, turn.output_tokens, turn.total_tokens) == (None, 7, None)
    assert "codex.turn.failed" not in {row["event"] for row in found}


def test_both_turns_of_a_repair_that_failed_are_recorded(failing: Silent) -> None:
    found = failures(lines_of(failing, "AAPL", Text("plain prose")))
    assert [(row["event"], row["kind"]) for row in found] == [("codex.turn.failed", "invalid_output")] * 2
    assert "no JSON object" in found[1]["error"]
    assert "prose" not in found[1]["error"], "what a model says is not for telemetry"


def test_a_key_that_a_provider_quotes_is_not_recorded(failing: Silent) -> None:
    message = "Incorrect API key provided: sk-live-0123456789abcdef, url: https://desk:pw12345@host/v1"
    entries = failures(lines_of(failing, "XOM", Status(401, {"error": {"message": message}})))
    assert {row["event"] for row in entries} >= {"codex.turn.failed"}
    for row in entries:
        assert "Incorrect API key" in row["error"]
        assert "0123456789" not in row["error"]
        assert "pw12345" not in row["error"]


def test_a_killed_process_is_an_error_of_the_runtime_and_a_failed_turn(failing: Silent) -> None:
    failing.model.policy = lambda body: Silence(60.0)
    step, _ = failing.opened("KO", attempts=2)
    before = len(list(failing.model.calls()))
    thread = threading.Thread(target=work, args=(failing.app, step, run_report))
    thread.start()
    try:
        wait_for(lambda: len(list(failing.model.calls())) > before, "the model is asked")
        (busy,) = [one for one in failing.app.desk.runtime.status() if one.in_flight]
        psutil.Process(busy.pid).kill()
    finally:
        thread.join(PATIENCE)
    error, failed = failures(lines(failing, step))
    assert (error["event"], error["kind"], error["will_retry"]) == ("codex.error", "process_died", False)
    assert (failed["event"], failed["kind"], failed["symbol"]) == ("codex.turn.failed", "process_died", "KO")
    assert error["error"] == failed["error"]
