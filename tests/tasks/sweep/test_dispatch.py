"""A message that could not be sent is noted as unsent, so that the next sweep sends it."""

from __future__ import annotations

from pathlib import Path

from models.setting_sources import load_settings
from models.store import Store
from models.tables import Step
from tasks.app import create_app
from tasks.bootstrap import desk_of
from tasks.dispatch import send
from tasks.graph import Ready
from tests.tasks.sweep.steps import change, get, opened, report


def test_without_redis_nothing_is_marked_as_sent(tmp_path: Path, store: Store) -> None:
    environ = {"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": f"unix://{tmp_path}/nobody.sock"}
    app = create_app(load_settings(environ, tmp_path), "alone")
    step, other = report("IBM"), report("AAPL")
    opened(store, step, other)
    change(store, Step, step.id, sends=4)
    send(app, [Ready(step.id, step.kind, step.role, None, step.subject)])
    assert (get(store, step.id).sent_at, get(store, step.id).sends) == (None, 0)
    assert get(store, other.id).sent_at is not None
    desk_of(app).close()
    app.close()
