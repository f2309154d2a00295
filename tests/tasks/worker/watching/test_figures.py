"""The gauges that a worker serves: those of the desk are shown by the role with the queue `ops` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.telemetry.gauges import DESK_GAUGES as OF_DESK
from chordesk.tasks.worker.worker_gauges import watch_worker
from tests.databases import make_database
from tests.stack import free_port
from tests.tasks.telemetry.asking import ask


def served(settings: Settings, role: str) -> str:
    desk = Desk(settings, role)
    try:
        watch_worker(desk, role)
        return ask(settings.metrics_port, "/metrics")[1]
    finally:
        desk.close()


@pytest.mark.parametrize(("role", "of_desk"), [("research", False), ("ops", True), ("trade", False), ("all", True)])
def test_one_role_shows_the_gauges_of_the_desk(tmp_path: Path, redis_server: str, role: str, of_desk: bool) -> None:
    settings = Settings(home=tmp_path, redis_url=redis_server, metrics_port=free_port())
    make_database(settings.database)
    text = served(settings, role)
    assert "desk_steps_held 0.0" in text
    assert ('desk_part_up{part="database"} 1.0' in text, 'desk_part_up{part="redis"} 1.0' in text) == (of_desk, of_desk)
    assert {gauge.name for gauge in OF_DESK if f"\n{gauge.name}" in text} >= {"desk_steps_due"} or not of_desk
    assert of_desk or not any(f"# TYPE {gauge.name} " in text for gauge in OF_DESK)


def test_without_redis_and_database_the_rest_is_served(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        redis_url=f"unix://{tmp_path}/none.sock",
        database_url="postgresql+psycopg://127.0.0.1:1/none",
        metrics_port=free_port(),
    )
    text = served(settings, "ops")
    assert 'desk_part_up{part="database"} 0.0' in text
    assert 'desk_part_up{part="redis"} 0.0' in text
    assert "desk_steps_due" not in text
    assert 'desk_ready{role="ops"} 0.0' in text
