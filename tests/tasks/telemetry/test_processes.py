"""Metrics and health of every role, as processes: ports, seconds that wait for the first, a lost Redis."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.stack import Processes, free_port, listens, processes, wait_for
from tests.tasks.telemetry.asking import ask, health

ROLES = ("research", "ops", "trade", "beat", "api", "notify")
COMMANDS = {"notify": ("notify", "run")}


@pytest.fixture(scope="module")
def desk() -> Iterator[tuple[Processes, dict[str, int]]]:
    ports = {role: free_port() for role in ROLES}
    channel = "phone=json://127.0.0.1:1"  # nothing is sent here
    with processes(DESK_PREMARKET="off", DESK_MIDDAY="off", DESK_NOTIFY_CHANNELS=channel) as made:
        for role in ("research", "ops", "trade"):
            made.start_worker(role, environ={"DESK_METRICS_PORT": str(ports[role])})
        for role in ("beat", "api", "notify"):
            made.desk(role, *COMMANDS.get(role, (role,)), environ={"DESK_METRICS_PORT": str(ports[role])})
        yield made, ports


def ready(port: int) -> bool:
    try:
        return health(port)[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_its_health_and_its_metrics_on_its_port(
    desk: tuple[Processes, dict[str, int]], role: str
) -> None:
    _, ports = desk
    wait_for(lambda: ready(ports[role]), f"{role} is ready")
    _, found = health(ports[role])
    assert (found["role"], found["live"], found["why"]) == (role, True, [])
    text = ask(ports[role], "/metrics")[1]
    assert f'desk_ready{{role="{role}"}} 1.0' in text
    assert ('desk_notifications_waiting{channel="phone"} 0.0' in text) == (role == "notify")
    assert ("desk_steps_due" in text) == (role == "ops")


def test_a_second_beat_is_not_ready_and_names_the_lock_that_it_waits_for(
    desk: tuple[Processes, dict[str, int]],
) -> None:
    made, ports = desk
    wait_for(lambda: ready(ports["beat"]), "the first one has the lock")
    port, waits = free_port(), ["it is starting, or waits for the lock of another beat"]
    made.desk("beat-2", "beat", environ={"DESK_METRICS_PORT": str(port)})
    wait_for(lambda: listens(port) and health(port)[1]["why"] == waits, "the scheduler is made")
    assert health(port, "/health/live")[0] == 200
    made.end("beat-2", signal.SIGKILL)
