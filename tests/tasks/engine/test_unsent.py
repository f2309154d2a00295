"""A message that could not be sent is noted as unsent, so that the next sweep sends it."""

from __future__ import annotations

from pathlib import Path

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.runs import Step
from chordesk.tasks.engine.steps import ReadyStep
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import send
from tests.tasks.engine.steps import change, get, opened, report


def test_without_redis_nothing_is_marked_as_sent(tmp_path: Path, store: Store) -> None:
    environ = {"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": f"unix://{tmp_path}/nobody.sock"}
    app = create_app(load_settings(environ, tmp_path), "alone")
    step, other = report("IBM"), report("AAPL")
    opened(store, step, other)
    change(store, Step, step.id, sends=4)
    send(app, [ReadyStep(step.id, step.kind, step.role, None, step.subject)])
    assert (get(store, step.id).sent_at, get(store, step.id).sends) == (None, 0)
    assert get(store, other.id).sent_at is not None
    app.desk.close()
    app.close()
