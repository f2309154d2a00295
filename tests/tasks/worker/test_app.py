"""The app's surface: names, queues, routes, what messages it takes, and how addresses are spelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from ssl import CERT_NONE, CERT_REQUIRED
from typing import Any

import pytest
from celery import Celery
from kombu import Connection

import chordesk
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.worker.app import node_name, routes
from chordesk.tasks.worker.messages import celery_url
from tests.stack import REPOSITORY
from tests.tasks.worker.steps import client_of, queued

NAMES = {
    "desk.screen",
    "desk.screen_shard",
    "desk.merge",
    "desk.report",
    "desk.conclude",
    "desk.synthesize",
    "desk.describe",
    *(f"desk.{kind}" for kind in ("brief", "harvest", "board", "voice", "round", "tally")),
    *(f"desk.backtest{part}" for part in ("", "_session", "_trade", "_result")),
    "desk.graph",
    "desk.propose",
    "desk.decide",
    "desk.submit",
    "desk.orders",
    "desk.finish",
    "desk.documents",
}


def test_the_task_names_are_the_public_surface(app: Celery) -> None:
    app.loader.import_default_modules()
    assert {name for name in app.tasks if not name.startswith("celery.")} == NAMES
    assert set(routes()) == NAMES


def test_the_code_is_this_repositorys() -> None:
    assert Path(chordesk.__file__).parent == REPOSITORY / "chordesk"


def test_each_queue_gets_its_own_messages_and_no_others(app: Celery) -> None:
    for name in sorted(NAMES):
        app.send_task(name, args=(name,))
    expected: dict[str, list[tuple[str, list[str]]]] = {}
    for name in sorted(NAMES):
        expected.setdefault(routes()[name], []).append((name, [name]))
    assert queued(app) == expected
    assert set(expected) == set(QUEUES)


def test_each_queue_is_bound_to_itself_alone(app: Celery) -> None:
    """With the default's exchange and key, a message to one of the queues would be copied into all of them."""
    app.connection_for_write().transport.state.clear()  # what earlier tests of this process declared
    for name in NAMES:
        app.send_task(name, args=("x",))
    with client_of(app) as client:
        bound = {key.decode(): client.smembers(key) for key in client.scan_iter("_kombu.binding.*")}
    assert bound == {f"_kombu.binding.{queue}": {f"{queue}\x06\x16\x06\x16{queue}".encode()} for queue in QUEUES}


def test_a_task_without_a_route_is_refused_an_invented_queue(app: Celery) -> None:
    with pytest.raises(Exception, match="nowhere"):
        app.send_task("desk.screen", args=("x",), queue="nowhere")
    assert queued(app) == {}


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


def test_a_worker_is_named_by_its_role_and_host() -> None:
    name, _, host = node_name("research", "-2").partition("@")
    assert name == "research-2"
    assert host
