"""The service against its own description, by schemathesis: what is described is accepted and answered so, what is not
is refused, and nothing makes the server fail."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import col, select

from chordesk.models.states import RUN_FINAL, ApprovalState, OrderState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.web.app import ROUTERS
from tests.examples import is_deep
from tests.patience import PATIENCE
from tests.tasks.views.chain import a_chain
from tests.tasks.web.conftest import Floor
from tests.tasks.web.kit import Service, service
from tests.tools.questions.rows import person_question

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# A whole run draws some requests of each kind. The deep tests draw more, and take each bound of each field too.
PHASES, EXAMPLES = ("coverage,fuzzing,stateful", 20) if is_deep() else ("fuzzing,stateful", 4)
# All routes but that of the page's own files.
OPERATIONS = {
    f"{method} {route.path}"  # type: ignore[attr-defined]
    for router in ROUTERS
    for route in router.routes
    for method in route.methods  # type: ignore[attr-defined]
} - {"GET /page/{name:path}"}
# A stream without an end, which a client of one request after another would wait for.
ENDLESS = {"GET /events"}
# These need what no sequence of requests makes: a position, a picture, a symbol that a run ordered, a turn that a
# worker runs, an order's id, a request as text, an episode, a code that `desk page` made, two runs of one kind, the
# arms of an experiment, and a thread that a role goes on in.
NEEDS_MORE = {
    "POST /session",
    "POST /approvals/{id_}",
    "POST /positions/{symbol}/close",
    "GET /artifacts/{digest}",
    "GET /experiments/{experiment_id}",
    "GET /spending",
    "GET /runs/{run_id}/board",
    "GET /runs/{run_id}/compare/{other_id}",
    "GET /runs/{run_id}/episode",
    "POST /runs/{run_id}/voices/{voice}/stop",
    "GET /runs/{run_id}/lineage/{symbol}",
    "POST /threads/{thread_id}/ask",
    "POST /threads/{thread_id}/fork",
    "POST /threads/{thread_id}/reset",
    "POST /threads/{thread_id}/turns/{turn_id}/interrupt",
}


def fill(running: Service) -> None:
    """Something of all that can be asked for. The runs have ended: the events of others would go on."""
    with running.store.session() as session:
        chain = a_chain(session)
        order = session.get_one(Order, chain.order_id)
        order.state = OrderState.APPROVAL_PENDING.value
        session.add(order)
        session.add(
            Approval(
                order_id=order.id, payload_hash=chain.preview_hash, notional=1.0, state=ApprovalState.PENDING.value,
                expires_at=utcnow() + dt.timedelta(hours=1),
            )
        )  # fmt: skip
        session.add(
            KeptThread(
                thread_id=new_id(), role="risk", subject="KO", mode="kept", model="m", reason="initial", worker="w"
            )
        )
        person_question(session)
        runs = [run.id for run in session.exec(select(Run)).all()]
    for run_id in runs:
        running.add_events(run_id, 3)
        running.end_run(run_id)


@contextlib.contextmanager
def runs_ended(running: Service) -> Iterator[None]:
    """End the runs that are opened meanwhile, as workers would: the events of a run are followed until it ends."""
    over = threading.Event()

    def end() -> None:
        while not over.wait(0.3):
            with running.store.read() as session:
                opened = session.exec(select(Run.id).where(col(Run.state).not_in(RUN_FINAL))).all()
            for run_id in opened:
                running.end_run(run_id)

    ending = threading.Thread(target=end, name="ending")
    ending.start()
    try:
        yield
    finally:
        over.set()
        ending.join()


@pytest.mark.long
@pytest.mark.malformed
@pytest.mark.timeout(1800)
def test_the_service_does_what_it_describes(tmp_path: Path, seed: int) -> None:
    with service() as running, runs_ended(running):
        fill(running)
        done = subprocess.run(
            [
                SCHEMATHESIS, "run", f"{running.url}/openapi.json", "--header",
                f"Authorization: Bearer {running.token}", "--phases", PHASES, "--checks", "all",
                "--exclude-path", "/events",
                "--max-examples", str(EXAMPLES), "--seed", str(seed), "--request-timeout", "30", "--no-color",
                "--report", "json", "--report-json-path", "report.json",
            ],
            cwd=tmp_path, capture_output=True, text=True, timeout=6 * PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr
        assert "Traceback" not in running.processes.log("api")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["operations"]["tested"] == len(OPERATIONS - ENDLESS)
    if is_deep():  # a few requests do not find an answer of each
        assert_answered(report["valid_rates"])


def assert_answered(rates: dict[str, dict[str, dict[str, int]]]) -> None:
    accepted = {name: sum(phase["accepted"] for phase in phases.values()) for name, phases in rates.items()}
    # Wrong codes alone are no valid requests, so there is no rate of them.
    assert set(accepted) == OPERATIONS - ENDLESS - {"POST /session"}
    unanswered = {name for name, count in accepted.items() if not count} - NEEDS_MORE
    assert not unanswered, "none of the requests was answered with what was asked for"


def test_the_description_names_every_route_and_the_one_shape_of_errors(floor: Floor) -> None:
    described = floor.client.get("/openapi.json").json()
    found = {
        f"{method.upper()} {path}": operation
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    assert set(found) == OPERATIONS
    for name, operation in found.items():
        assert operation["security"] == ([] if name == "POST /session" else [{"HTTPBearer": []}]), name
        problem = operation["responses"]["default"]["content"]["application/problem+json"]["schema"]
        assert problem == {"$ref": "#/components/schemas/Problem"}, name
        assert operation["description"], name
    assert described["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert "sequence" in described["components"]["schemas"]["Envelope"]["properties"]
