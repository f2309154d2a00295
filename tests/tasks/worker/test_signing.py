"""Messages over a Redis that others reach: what the desk did not sign is never run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab
from pydantic import SecretStr
from redbeat import RedBeatSchedulerEntry
from sqlmodel import select

from chordesk.models.tables.runtime import Notice
from chordesk.tasks import running_processes
from chordesk.tasks.doctor.check import CheckContext, CheckStatus, messages
from chordesk.tasks.worker.messages import REPORTS_PASS, sender_app
from chordesk.tasks.worker.scheduler import WatchedScheduler
from chordesk.tasks.worker.signing import OPTION
from tests import zygote
from tests.conftest import valkey_binary
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, free_port, listens, processes, wait_for
from tests.tasks.worker.steps import client_of

KEY, ANOTHER = SecretStr("k" * 16 + "0123456789abcdef"), SecretStr("a" * 16 + "0123456789abcdef")
QUEUE = "ops"


@pytest.mark.process
def test_a_forged_task_or_command_is_never_run_and_a_signed_one_is() -> None:
    port = free_port()
    with processes(DESK_MESSAGE_KEY=KEY.get_secret_value(), DESK_LOG_LEVEL="DEBUG") as desk:
        place = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(desk.home))
        desk.spawn("tcp", valkey_binary(), *place, "--save", "", "--appendonly", "yes")
        wait_for(lambda: listens(port), "Redis listens")
        desk.environ["DESK_REDIS_URL"] = f"redis://127.0.0.1:{port}/0"
        desk.workers("ops")
        thief = sender_app(desk.settings.model_copy(update={"message_key": ANOTHER}))
        plain = Celery("plain", broker=desk.environ["DESK_REDIS_URL"])
        forged = [one.send_task(REPORTS_PASS, queue=QUEUE).id for one in (thief, plain)]
        for one in (thief, plain):
            one.control.shutdown()
        signed = desk.app.send_task(REPORTS_PASS, queue=QUEUE).id
        wait_for(lambda: signed in desk.log("ops"), "the signed one is run")
        assert not [one for one in forged if one in desk.log("ops")]
        store = desk.app.desk.store

        def noticed() -> list[Notice]:
            with store.read() as session:
                return list(session.exec(select(Notice).where(Notice.kind == "forged")))

        wait_for(lambda: bool(noticed()), "it is on record")
        found = messages(CheckContext(desk.settings, desk.app.desk))
        assert found.status is CheckStatus.WARN
        assert "DESK_MESSAGE_KEY" in found.remedy
        desk.await_workers("ops")  # still, after the order to shut down

        with client_of(desk.app) as redis:
            redis.set(running_processes.KEY, "another")
        desk.start_worker("trade", None)
        assert desk.running.pop("trade").wait(PATIENCE) == 2
        assert "is of another desk (another)" in desk.log("trade")


@contextmanager
def consuming(app: Celery) -> Iterator[Callable[[bytes], list[Any]]]:
    """Yield a function that puts bytes into a queue, and returns what the consumer was given since."""
    with app.connection() as connection, client_of(app) as server:
        given: list[Any] = []
        queues = [app.amqp.queues[QUEUE]]
        with app.amqp.TaskConsumer(connection, queues=queues, on_message=lambda one: given.append(one.headers)):

            def put(data: bytes) -> list[Any]:
                given.clear()
                refused = app.conf.broker_transport_options[OPTION].refused
                server.lpush(QUEUE, data)
                wait_for(lambda: _drained(connection, given) or refused < _refused(app), "it is taken")
                return given

            yield put


def _refused(app: Celery) -> int:
    found: int = app.conf.broker_transport_options[OPTION].refused
    return found


def _drained(connection: Any, given: list[Any]) -> bool:
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.5)
    return bool(given)


def test_a_message_counts_as_it_was_sent_and_where_it_was_sent(make_app: Callable[..., Celery]) -> None:
    app = make_app(message_key=KEY)
    with client_of(app) as server:
        app.send_task(REPORTS_PASS, args=("x",))
        app.send_task("desk.orders")
        text, elsewhere = server.rpop(QUEUE), server.rpop("trade")
    assert isinstance(text, bytes)
    assert isinstance(elsewhere, bytes)
    sent = json.loads(text)
    body = "W1sieSJdLCB7fSwge31d"  # [["y"], {}, {}]
    altered = [
        {**sent, "body": body},
        {**sent, "headers": {**sent["headers"], "task": "desk.submit"}},
        {**sent, "headers": {**sent["headers"], "expires": "2099-01-01T00:00:00+00:00"}},
        {**sent, "headers": {key: value for key, value in sent["headers"].items() if key != "desk-signature"}},
        {**sent, "headers": {**sent["headers"], "desk-signature": "é"}},
        {**sent, "properties": {**sent["properties"], "body_encoding": None}},
        {**sent, "properties": {**sent["properties"], "reply_to": "me"}},
    ]
    junk = (b"no json", b"[" * 100_000, b"{}", b"[]", b'{"headers": {}, "properties": {}}', b"\xff")
    with consuming(app) as put:
        for data in (*(json.dumps(one).encode() for one in altered), *junk, elsewhere):
            assert put(data) == [], data[:300]
        # As it was sent, and again: a step is claimed in the database, whatever message names it.
        assert put(text)[0]["task"] == REPORTS_PASS
        assert put(text)


def test_what_workers_hold_is_restored_beside_what_is_no_message(make_app: Callable[..., Celery]) -> None:
    app = make_app(message_key=KEY)
    app.send_task(REPORTS_PASS)
    with app.connection() as connection, client_of(app) as server:
        held = json.dumps([json.loads(server.rpop(QUEUE)), "", QUEUE])
        for place, text in enumerate((held, "no json", "[]", "7")):
            server.hset("unacked", f"tag{place}", text)
            server.zadd("unacked_index", {f"tag{place}": 1})
        connection.channel().qos.restore_visible()
        assert (server.llen(QUEUE), server.hlen("unacked"), server.zcard("unacked_index")) == (1, 0, 0)


@pytest.mark.parametrize("command", [("worker", "ops"), ("beat",), ("flower",), ("api",), ("up",)])
def test_no_process_starts_without_a_key_beside_a_redis_that_others_reach(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    environ = {"DESK_HOME": str(tmp_path), "DESK_REDIS_URL": "redis://127.0.0.1:1/0", "PATH": ""}
    done = zygote.run(command, environ, REPOSITORY, PATIENCE)
    assert done.returncode == 2
    assert "DESK_MESSAGE_KEY or DESK_MESSAGE_KEY_FILE" in done.stdout + done.stderr


def test_the_schedule_sends_what_the_settings_say_whatever_redis_has(make_app: Callable[..., Celery]) -> None:
    app = make_app()
    scheduler = WatchedScheduler(app, lazy=False)
    scheduler.setup_schedule()
    own = app.conf.beat_schedule
    every = crontab()
    for name, task in (("theirs", "desk.submit"), (next(iter(own)), "desk.submit")):
        RedBeatSchedulerEntry(name, task, every, args=("step",), app=app).save()
    with client_of(app) as server:
        for key in server.zrange("desk:beat::schedule", 0, -1):
            server.zadd("desk:beat::schedule", {key: 1})
    assert set(scheduler.schedule) == set(own) - {next(iter(own))}
