"""Real processes without beat: any worker sweeps, the sweep outlives Redis, a flushed Redis costs no run, and
`desk status` shows it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from sqlmodel import select

from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step, Sweep
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.workflows.research import open_research
from tests import zygote
from tests.constants import constants
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.engine.steps import sweep_row


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes(**constants(SWEEP_SECONDS=1), DESK_PREMARKET="off", DESK_MIDDAY="off") as found:
        found.rulebook(latency=0.7)
        found.workers("research", "ops", "trade", concurrency=4)
        wait_for(lambda: row(found).last_at is not None, "the first sweep")
        yield found


def row(desk: Processes) -> Sweep:
    return sweep_row(desk.app.desk.store)


def client_of(desk: Processes) -> redis.Redis:
    return redis.Redis.from_url(redis_url(desk.settings))


def swept_after(desk: Processes, seconds: float = PATIENCE) -> None:
    now = utcnow()
    wait_for(lambda: (row(desk).last_at or now) > now, "a sweep from here on", seconds)


def run_of(desk: Processes, run_id: str) -> Run:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run_id)


def command(desk: Processes, *arguments: str, code: int = 0) -> str:
    done = zygote.run(arguments, desk.environ, REPOSITORY)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def status(desk: Processes, code: int = 0) -> dict[str, Any]:
    return dict(json.loads(command(desk, "status", "--json", code=code)))


def at_work(desk: Processes, run_id: str) -> bool:
    with desk.app.desk.store.read() as session:
        running = select(Step.id).where(Step.run_id == run_id, Step.state == StepState.RUNNING)
        return session.exec(running).first() is not None


def in_flight(desk: Processes) -> dict[str, Any]:
    """The status at a moment when a turn is in flight; a turn takes longer than asking does."""
    found = status(desk)
    for _ in range(12):
        if found["turns_in_flight"]:
            break
        found = status(desk)
    return found


def test_status_of_a_desk_at_work(desk: Processes) -> None:
    run = open_research(desk.app, ["IBM", "AAPL", "MMM"])
    wait_for(lambda: at_work(desk, run.id), "it is taken up")
    with client_of(desk) as client:
        client.set("desk:parked:gpt-other", "rate_limited: slow down", px=60_000)
        client.set("desk:parked:gpt-past", "rate_limited", px=1)
    found = in_flight(desk)
    research = next(worker for worker in found["workers"] if worker["node"].startswith("research"))
    assert {worker["node"].partition("@")[0] for worker in found["workers"]} == {"research", "ops", "trade"}
    assert research["pid"] == desk.running["research"].pid
    assert research["steps_held"] > 0
    assert found["turns_in_flight"] == sum(server["in_flight"] for server in research["app_servers"]) > 0
    server = research["app_servers"][0]
    assert server["age"] > 0
    assert server["rss_mb"] > 1
    assert found["redis"]["queued"].keys() == {"screen", "research", "ops", "trade"}
    assert [one["model"] for one in found["redis"]["parked"]] == ["gpt-other"]
    assert found["database"]["runs"] == {"running": 1}
    assert found["database"]["oldest"]["step"]["run_id"] == run.id
    assert found["database"]["sweep"]["seconds"] >= 0
    assert found["trouble"] == {}
    text = command(desk, "status")
    assert "research@" in text
    assert "parked: gpt-other for" in text
    assert "last sweep:" in text
    wait_for(lambda: run_of(desk, run.id).state == RunState.DONE, "the run ends")
    shown = attempts(desk, run.id)
    assert len(shown) == 16, "twelve reports, three conclusions and the end"
    assert {one["outcome"] for one in shown} == {"done"}


def attempts(desk: Processes, run_id: str) -> list[dict[str, Any]]:
    steps = json.loads(command(desk, "runs", "show", run_id, "--json"))["steps"]
    return [one for step in steps for one in step["attempts"]]


def test_a_killed_redis_that_comes_back_has_its_sweep_again(desk: Processes) -> None:
    swept_after(desk)
    mark = row(desk).redis_mark
    desk.end("redis", signal.SIGKILL)
    found = status(desk, code=1)
    assert "redis" in found["trouble"]
    assert found["workers"] == []
    assert found["database"]["sweep"]["at"] is not None
    assert "redis: no answer" in command(desk, "status", code=1)
    desk.redis()
    swept_after(desk)  # which may have begun while Redis was away
    wait_for(lambda: row(desk).redis_mark != mark, "a sweep has seen the new one")
    for name in ("ops", "research", "trade"):
        assert desk.running[name].poll() is None, desk.log(name)[-2000:]


def test_status_without_workers_and_without_a_database(desk: Processes) -> None:
    for name in ("ops", "trade", "research"):
        desk.end(name)
    found = status(desk, code=1)
    assert "none answered" in found["trouble"]["workers"]
    wait_for(lambda: "none runs" in status(desk, code=1)["trouble"].get("sweep", ""), "that nothing sweeps is said")
    assert found["redis"]["held"] == 0
    lost = {**desk.environ, "DESK_DATABASE_URL": "sqlite:////nowhere/desk.db"}
    done = zygote.run(("status",), lost, REPOSITORY)
    assert done.returncode == 1, done.stderr
    assert "database: no answer" in done.stdout
    assert "DatabaseDown" not in done.stdout
