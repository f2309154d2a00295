"""The app's surface: names, queues, routes, addresses, the messages of steps, and the guards around kombu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from ssl import CERT_NONE, CERT_REQUIRED
from typing import Any

import pytest
from celery import Celery
from celery.canvas import Signature, _chord, group
from kombu import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from structlog.testing import capture_logs

import chordesk
from chordesk.models.states import StepKind
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.engine.steps import ReadyStep
from chordesk.tasks.worker import celery_fixes
from chordesk.tasks.worker.app import routes
from chordesk.tasks.worker.dispatch import canvases, send
from chordesk.tasks.worker.messages import celery_url
from tests.parts import HERE
from tests.stack import REPOSITORY
from tests.tasks.worker.steps import client_of, logged, queued

NAMES = {
    "desk.screen",
    "desk.screen_shard",
    "desk.merge",
    "desk.report",
    "desk.conclude",
    "desk.synthesize",
    "desk.describe",
    "desk.propose",
    "desk.decide",
    "desk.submit",
    "desk.orders",
    "desk.finish",
    "desk.documents",
    "desk.scheduled",
}
OF_FEATURES = {
    "drafting": {"desk.draft_lens"},
    "board": {f"desk.{kind}" for kind in ("brief", "harvest", "board", "voice", "round", "tally")},
    "alerts": {"desk.pass.alerts"},
    "asking": {"desk.answer", "desk.pass.proposals", "desk.pass.questions"},
    "graphs": {"desk.graph"},
    "measure": {f"desk.backtest{part}" for part in ("", "_session", "_trade", "_result")},
}
NAMES |= {name for feature, names in OF_FEATURES.items() if feature in HERE for name in names}


def test_the_task_names_are_the_public_surface(app: Celery) -> None:
    app.loader.import_default_modules()
    assert {name for name in app.tasks if not name.startswith("celery.")} == NAMES
    assert set(routes()) == NAMES


def test_the_code_is_this_repositorys() -> None:
    assert Path(chordesk.__file__).parent == REPOSITORY / "chordesk"


def test_each_queue_is_bound_to_itself_alone(app: Celery) -> None:
    """With the default's exchange and key, a message to one of the queues would be copied into all of them."""
    app.connection_for_write().transport.state.clear()  # what earlier tests of this process declared
    for name in NAMES:
        app.send_task(name, args=("x",))
    with client_of(app) as client:
        bound = {key.decode(): client.smembers(key) for key in client.scan_iter("_kombu.binding.*")}
    assert bound == {f"_kombu.binding.{queue}": {f"{queue}\x06\x16\x06\x16{queue}".encode()} for queue in QUEUES}


def test_messages_are_json_alone_acknowledged_late_one_at_a_time(app: Celery) -> None:
    app.loader.import_default_modules()
    assert (app.conf.accept_content, app.conf.task_serializer) == (["json"], "json")
    assert app.conf.worker_prefetch_multiplier == 1
    for name in NAMES:
        task = app.tasks[name]
        assert (task.acks_late, task.reject_on_worker_lost, task.ignore_result) == (True, True, True)


def broker_parameters(address: str) -> dict[str, Any]:
    """Return the parameters that kombu would connect with, without connecting."""
    with Connection(celery_url(address)) as connection:
        transport = connection.transport
        channel = transport.Channel.__new__(transport.Channel)
        channel.connection, channel.max_connections = transport, 10
        return dict(channel._connparams())


def backend_parameters(address: str) -> dict[str, Any]:
    return dict(Celery(backend=celery_url(address), set_as_current=False).backend.connparams)


SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    ("unix:///tmp/a/s", {"path": "/tmp/a/s", "db": 0}),
    ("unix:///tmp/a/s?db=3", {"path": "/tmp/a/s", "db": 3}),
    ("unix://me:p%40w@/tmp/a%20b/s?db=3", {"path": "/tmp/a b/s", "db": 3, "username": "me", "password": "p@w"}),
    ("unix:///tmp/s?password=p%40w&db=2", {"path": "/tmp/s", "db": 2, "password": "p@w"}),
    ("unix:///tmp/s?username=me&password=pw", {"path": "/tmp/s", "db": 0, "username": "me", "password": "pw"}),
    ("redis://me:p%40w@host:7/2", {"host": "host", "port": 7, "db": 2, "username": "me", "password": "p@w"}),
    ("redis://host", {"host": "host", "port": 6379, "db": 0}),
    ("rediss://host:7/2", {"host": "host", "port": 7, "db": 2, "ssl_cert_reqs": CERT_REQUIRED}),
    ("rediss://host/0?ssl_cert_reqs=none", {"host": "host", "ssl_cert_reqs": CERT_NONE}),
    (
        "rediss://:pw@host/1?ssl_ca_certs=/x/ca.pem",
        {"host": "host", "db": 1, "password": "pw", "ssl_cert_reqs": CERT_REQUIRED, "ssl_ca_certs": "/x/ca.pem"},
    ),
]


@pytest.mark.parametrize("parameters", [broker_parameters, backend_parameters], ids=["broker", "results"])
@pytest.mark.parametrize(("address", "expected"), SPELLINGS, ids=[address for address, _ in SPELLINGS])
def test_an_address_means_the_same_to_celery_as_to_the_client(
    address: str, expected: dict[str, Any], parameters: Callable[[str], dict[str, Any]]
) -> None:
    found = parameters(address)
    assert {name: found.get(name) for name in expected} == expected


ROLES = ("fundamentals", "risk", "catalyst")


def shard(number: int) -> ReadyStep:
    return ReadyStep(f"shard-{number}", StepKind.SCREEN_SHARD, "screener_technical", "merge", f"technical:{number}")


def report(symbol: str, role: str) -> ReadyStep:
    return ReadyStep(f"{symbol}-{role}", StepKind.REPORT, role, f"{symbol}-conclude", symbol)


def conclude(symbol: str) -> ReadyStep:
    return ReadyStep(f"{symbol}-conclude", StepKind.CONCLUDE, "", "decide", symbol)


def single(kind: StepKind) -> ReadyStep:
    return ReadyStep(kind.value, kind, "", "finish")


def made(app: Celery, *ready: ReadyStep) -> list[Signature]:
    return list(canvases(app, ready))


def sent(task: Signature) -> tuple[str, str]:
    return task.task, task.args[0]


def test_shards_are_one_group(app: Celery) -> None:
    (canvas,) = made(app, shard(0), shard(1), shard(2))
    assert isinstance(canvas, group)
    assert [sent(task) for task in canvas.tasks] == [("desk.screen_shard", f"shard-{n}") for n in range(3)]


def test_the_roles_of_each_candidate_are_one_flat_chord(app: Celery) -> None:
    found = made(app, *(report(symbol, role) for role in ROLES for symbol in ("IBM", "AAPL")))
    assert [type(canvas) for canvas in found] == [_chord, _chord]
    for canvas, symbol in zip(found, ("IBM", "AAPL"), strict=True):
        assert [sent(task) for task in canvas.tasks] == [("desk.report", f"{symbol}-{role}") for role in ROLES]
        assert sent(canvas.body) == ("desk.conclude", f"{symbol}-conclude")
        for task in (*canvas.tasks, canvas.body):
            # Flat: a plain task, with nothing chained to it and nothing nested in it.
            assert type(task) is Signature
            assert not task.options.get("link")
            assert task.immutable


def test_a_lone_role_of_one_candidate_is_in_no_chord_beside_those_of_another(app: Celery) -> None:
    found = made(app, report("IBM", "risk"), report("AAPL", "risk"), report("AAPL", "catalyst"))
    assert [type(canvas) for canvas in found] == [Signature, _chord]
    assert sent(found[0]) == ("desk.report", "IBM-risk")
    assert [sent(task) for task in found[1].tasks] == [("desk.report", "AAPL-risk"), ("desk.report", "AAPL-catalyst")]


def test_a_kind_that_this_version_does_not_know_is_left_out_and_logged(app: Celery) -> None:
    with capture_logs() as lines:
        (found,) = made(app, ReadyStep("later", "of_a_later_version", "", "finish"), single(StepKind.DECIDE))
    assert sent(found) == ("desk.decide", "decide")
    assert [(line["event"], line["step"]) for line in logged(lines)] == [("dispatch.unknown_kind", "later")]


def test_sent_steps_lie_in_their_queues(app: Celery) -> None:
    send(app, [shard(0), shard(1), *(report("IBM", role) for role in ROLES), single(StepKind.SUBMIT)])
    assert queued(app) == {
        "screen": [("desk.screen_shard", ["shard-0"]), ("desk.screen_shard", ["shard-1"])],
        "research": [("desk.report", [f"IBM-{role}"]) for role in ROLES],
        "trade": [("desk.submit", ["submit"])],
    }


@pytest.fixture
def channel(app: Celery) -> Iterator[Any]:
    with app.connection_for_write() as connection:
        yield connection.default_channel


def test_a_channel_without_its_connection_is_reported(channel: Any) -> None:
    """Without the guard: AttributeError, 'NoneType' object has no attribute 'hostname'."""
    channel._connparams()
    kept, channel.connection.client = channel.connection.client, None
    try:
        with pytest.raises(RedisConnectionError, match="lost its connection"):
            channel._connparams()
    finally:
        channel.connection.client = kept


def test_held_messages_are_refreshed_and_settled_ones_are_not(app: Celery, channel: Any) -> None:
    held, settled, gone = "held", "settled", "gone"
    channel.qos._delivered.update(dict.fromkeys((held, settled, gone)))
    channel.qos._dirty.add(settled)
    with channel.conn_or_acquire() as client:
        client.zadd(channel.unacked_index_key, {held: 1.0, settled: 1.0, "anothers": 1.0})
        assert celery_fixes.refresh(channel) == 2
        scores = dict(client.zrange(channel.unacked_index_key, 0, -1, withscores=True))
    channel.qos._delivered.clear()
    assert scores.pop(b"held") > 1e9
    assert scores == {b"settled": 1.0, b"anothers": 1.0}  # and what had gone is not put back
