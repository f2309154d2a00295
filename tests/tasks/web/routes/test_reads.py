"""Runs, verdicts, turns, threads and orders over HTTP: the same that the commands show."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from typing import Any

import pytest

from chordesk.models.database.blobs import path_in_home
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.retention import run_deletion
from chordesk.tasks.retention.retention_policy import policy_of
from chordesk.tools.orders.audit import record
from tests import zygote
from tests.builders import a_run, a_step, a_turn
from tests.stack import REPOSITORY, wait_for
from tests.tasks.views.chain import Chain, parts
from tests.tasks.web.conftest import Floor
from tests.tasks.web.kit import a_picture
from tests.tasks.web.test_security import problem


def get(floor: Floor, path: str, **params: Any) -> Any:
    response = floor.client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


def command(floor: Floor, *arguments: str) -> Any:
    done = zygote.run((*arguments, "--json"), floor.service.processes.environ, REPOSITORY)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_is_what_the_command_shows(floor: Floor) -> None:
    ours, theirs = get(floor, f"/runs/{floor.chain.run_id}"), command(floor, "runs", "show", floor.chain.run_id)
    for found in (ours, theirs):
        assert found["progress"].pop("seconds") > 0
    assert ours == theirs
    assert [row["symbol"] for row in ours["candidates"]] == ["ACME", "IBM"]
    assert get(floor, f"/runs/{floor.chain.run_id}/candidates") == ours["candidates"]


@pytest.mark.parametrize("path", ["", "/events", "/candidates", "/verdicts", "/timeline", "/funnel", "/table"])
def test_a_run_that_retention_deleted_is_not_found(path: str, floor: Floor) -> None:
    """Somebody looks at it while it goes, and once more after it."""
    with floor.service.store.session() as session:
        old = utcnow() - dt.timedelta(days=400)
        run = a_run(session, state=RunState.DONE, created_at=old, finished_at=old)
        a_step(session, run, state=StepState.DONE)
    assert get(floor, f"/runs/{run.id}")["state"] == "done"
    settings = floor.service.processes.settings
    assert run_deletion.collect(floor.service.store, policy_of(settings, utcnow()))["run"].rows == 1
    answer = floor.client.get(f"/runs/{run.id}{path}")
    problem(answer, 404)
    assert answer.json()["detail"] == f"there is no run {run.id!r}"


def test_runs_are_listed_the_newest_first_and_by_what_they_are(floor: Floor) -> None:
    with floor.service.store.session() as session:
        made = [a_run(session, kind="research", state="failed").id for _ in range(3)]
    assert [row["run"]["id"] for row in get(floor, "/runs", kind="research", state="failed")] == made[::-1]
    assert [row["run"]["id"] for row in get(floor, "/runs", kind="research", limit=1, offset=1)] == [made[1]]
    listed = get(floor, "/runs", limit=1000)
    assert listed == command(floor, "runs", "list", "--limit", "1000")
    assert floor.chain.run_id in {row["run"]["id"] for row in listed}


def test_an_id_may_be_cut_short_but_must_be_one(floor: Floor) -> None:
    with floor.service.store.session() as session:
        run = a_run(session, id="b" * 32).id
        a_run(session, id="cc" + "0" * 30)
        a_run(session, id="cc" + "1" * 30)
    assert get(floor, "/runs/bbbb")["run_id"] == run
    assert problem(floor.client.get("/runs/cc"), 409) == "usage_error"
    missing = floor.client.get("/runs/ffff")
    assert problem(missing, 404) == "not_found"
    assert missing.json()["detail"] == "there is no run 'ffff'"
    assert missing.json()["remedy"] == "`desk runs list` shows them"


def test_lineage_leads_back_to_the_hit(floor: Floor) -> None:
    found = get(floor, f"/runs/{floor.chain.run_id}/lineage/acme")
    assert Chain.ids_of(found) == floor.chain.expected()
    assert problem(floor.client.get(f"/runs/{floor.chain.run_id}/lineage/NONE"), 404) == "not_found"


def test_turns_of_a_run_and_their_tools(floor: Floor) -> None:
    found = get(floor, f"/runs/{floor.chain.run_id}/turns")
    assert len(found) == floor.chain.turns
    assert [row["started_at"] for row in found] == sorted(row["started_at"] for row in found)
    (quick,) = get(floor, f"/runs/{floor.chain.run_id}/turns", role="quick", subject="ACME")
    assert quick["thread_id"] == "thread-ACME-quick"
    whole = get(floor, f"/turns/{quick['id']}")
    assert whole["turn"] == quick
    assert [row["tool"] for row in whole["tool_calls"]] == ["signals_get", "signals_get"]
    assert problem(floor.client.get("/turns/none"), 404) == "not_found"


def test_threads_are_what_the_commands_show(floor: Floor) -> None:
    thread, fork = new_id(), new_id()
    with floor.service.store.session() as session:
        kept = {"role": "risk", "mode": "kept", "model": "m", "worker": "w"}
        session.add(KeptThread(thread_id=thread, subject="KO", reason="initial", **kept))
        session.add(
            KeptThread(thread_id=fork, subject="KO#fork-1", reason="fork", parent_id=thread, before_turn="t2", **kept)
        )
        step = a_step(session, a_run(session), role="risk", subject="KO")
        turn = a_turn(session, step, thread_id=thread, kept=True, codex_turn_id="codex-t1", text="{}")
    assert {row["thread"]["thread_id"] for row in get(floor, "/threads", role="risk")} == {thread, fork}
    assert get(floor, "/threads") == command(floor, "threads", "list")
    assert get(floor, "/threads", role="none") == []
    whole = get(floor, f"/threads/{thread}")
    assert whole == command(floor, "threads", "show", thread)
    assert (whole["forks"], [row["turn_id"] for row in whole["lines"]]) == ([fork], ["codex-t1"])
    assert get(floor, "/turns/codex-t1")["turn"]["id"] == turn.id, "the runtime's own id will do"
    assert get(floor, "/threads/thread-trader")["thread"]["role"] == "trader", "also one of one conversation"
    assert problem(floor.client.get("/threads/none-such"), 404) == "not_found"


def test_an_order_and_its_lines_in_the_log(floor: Floor) -> None:
    order = floor.chain.order_id
    with floor.service.store.session() as session:
        record(session, floor.service.processes.settings, "previewed", order=order, payload_hash="x")
    whole = get(floor, f"/orders/{order}")
    theirs = command(floor, "orders", "show", order)
    assert (whole["order"]["id"], whole["log"]) == (order, None)
    assert whole["preview"]["payload_hash"] == floor.chain.preview_hash == theirs["preview"]["payload_hash"]
    assert whole["chain"] == theirs["chain"]
    assert [row["id"] for row in parts(whole["chain"], "decision")] == [floor.chain.decision_id]
    (line,) = get(floor, f"/orders/{order}", log=True)["log"]
    assert (line["kind"], line["facts"]["payload_hash"]) == ("previewed", "x")
    listed = get(floor, "/orders", run=floor.chain.run_id, symbol="acme")
    assert [(row["order"]["id"], row["preview"]["payload_hash"]) for row in listed] == [
        (order, floor.chain.preview_hash)
    ]
    assert get(floor, "/orders", state="filled") == []
    assert problem(floor.client.get("/orders/none-such"), 404) == "not_found"


WRONG = (
    ("/runs?limit=0", "query.limit='0'"),
    ("/runs?limit=1001", "1001"),
    ("/runs?state=nice", "query.state='nice'"),
    ("/runs?offset=-1", "query.offset='-1'"),
    ("/orders?state=nice", "query.state='nice'"),
    ("/runs/%25", "path.run_id='%'"),
    ("/runs/a%00b", "path.run_id"),
    ("/runs/" + "a" * 65, "path.run_id"),
    ("/threads?role=a%1bb", "query.role"),
)


@pytest.mark.parametrize(("path", "detail"), WRONG)
def test_an_error_in_a_request_is_named(floor: Floor, path: str, detail: str) -> None:
    response = floor.client.get(path)
    assert problem(response, 422) == "wrong_request"
    assert detail in response.json()["detail"]


def test_a_database_that_fails_is_reported_and_does_not_end_the_service(floor: Floor) -> None:
    with sqlite3.connect(floor.service.processes.home / "desk.db") as connection:
        connection.execute("alter table fill rename to gone")
        connection.commit()
        failed = floor.client.get(f"/orders/{floor.chain.order_id}")
        connection.execute("alter table gone rename to fill")
    assert problem(failed, 503) == "database_down"
    assert "no such table" not in failed.text, "what the database says is for the log"
    assert get(floor, f"/orders/{floor.chain.order_id}")["fills"] == []


def test_an_internal_fault_is_reported_without_its_text(floor: Floor) -> None:
    with floor.service.store.session() as session:
        run_id = a_run(session).id
    with sqlite3.connect(floor.service.processes.home / "desk.db") as connection:
        connection.execute("update run set params = '{secret-word' where id = ?", [run_id])
        connection.commit()
        failed = floor.client.get(f"/runs/{run_id}")
        connection.execute("update run set params = '{}' where id = ?", [run_id])
    assert problem(failed, 500) == "internal_error"
    assert "secret-word" not in failed.text
    wait_for(lambda: "Traceback" in floor.service.processes.log("api"), "the log has it")
    assert get(floor, f"/runs/{run_id}")["state"] == "running"


def test_the_bytes_of_a_picture_are_served_as_they_were_stored(floor: Floor) -> None:
    digest = a_picture(floor.service, b"a drawing")
    found = floor.client.get(f"/artifacts/{digest}")
    assert (found.status_code, found.headers["content-type"], found.content) == (200, "image/png", b"a drawing")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert floor.client.get(f"/artifacts/{digest}", headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_picture_that_is_not_known_or_was_changed_is_not_served(floor: Floor) -> None:
    unknown = floor.client.get(f"/artifacts/{'0' * 64}")
    assert problem(unknown, 404) == "not_found"
    digest = a_picture(floor.service, b"another drawing")
    file = floor.service.processes.home / path_in_home(digest, "image/png")
    file.write_bytes(b"another painting")
    changed = floor.client.get(f"/artifacts/{digest}")
    assert problem(changed, 404) == "not_found"
    assert "not as it was" in changed.json()["detail"]
    file.unlink()
    assert floor.client.get(f"/artifacts/{digest}").status_code == 404
    file.with_suffix(".removed").touch()
    gone = floor.client.get(f"/artifacts/{digest}")
    assert problem(gone, 404) == "not_found"
    assert f"the file of artifact {digest} was removed on 20" in gone.json()["detail"]
    for wrong in ("..%2fdesk.db", digest.upper(), digest[:63]):
        assert floor.client.get(f"/artifacts/{wrong}").status_code in (404, 422)
