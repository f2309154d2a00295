"""Requests of a model, answered through the service."""

from __future__ import annotations

from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.models.states import StepState
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approvals
from tests.builders import a_run, a_step
from tests.tasks.web.kit import Service, service
from tests.tasks.web.routes.test_approvals import NO, YES
from tests.tasks.web.test_security import problem

QUESTION = {"id": "size", "header": "Size", "question": "How large?", "options": [], "other": True, "secret": False}


def test_a_request_is_listed_and_answered_once() -> None:
    with service() as running, running.client() as client:
        asked(running, "request-1", 60)
        (row,) = client.get("/approvals").json()
        asking = row["approval"]
        assert (asking["kind"], asking["id"], row["what"]) == ("user_input", "request-1", "How large?")
        assert asking["detail"] == {"questions": [QUESTION]}
        unanswered = client.post("/approvals/request-1", json=YES)
        assert problem(unanswered, 409) == "usage_error"
        assert "size: How large?" in unanswered.json()["remedy"]
        answered = client.post("/approvals/request-1", json={**YES, "answers": {"size": ["small"]}})
        assert answered.json() == {
            "approval": "request-1", "order": None, "state": "approved", "by": "Ann Lee via the API", "notified": False,
        }  # fmt: skip
        assert client.get("/approvals").json() == []
        again = client.post("/approvals/request-1", json=NO)
        assert problem(again, 409) == "not_waiting"
        asked(running, "request-2", 0)
        late = client.post("/approvals/request-2", json=NO)
        assert problem(late, 409) == "not_waiting"
        with running.store.read() as session:
            assert session.get_one(RuntimeApproval, "request-1").answers == {"size": ["small"]}
            assert session.get_one(RuntimeApproval, "request-2").state == "expired"


def asked(running: Service, id_: str, seconds: float) -> None:
    request = ApprovalRequest("user_input", "thread-1", "turn-1", "item-1", None, {"questions": [QUESTION]})
    with running.store.session() as session:
        run = a_run(session)
        step = a_step(session, run, state=StepState.RUNNING, attempt=1)
        approvals.add_request(session, id_, request, Scope(run.id, step.id, 1, "quick", "ACME"), seconds)
