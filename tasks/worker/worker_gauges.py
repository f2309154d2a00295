"""The gauges that a worker shows: its own, and those of the whole desk where it serves the queue `ops`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from prometheus_client.core import GaugeMetricFamily
from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.errors import DeskError
from chordesk.tasks import life
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import WORKER_QUEUES
from chordesk.tasks.schedules import entries
from chordesk.tasks.telemetry.gauges import (
    Exporter,
    Reading,
    families,
    read_broker,
    read_database,
    read_lives,
    read_own,
)
from chordesk.tasks.worker.control import app_servers
from chordesk.tasks.worker.signing import Signer

OF_THE_DESK = "ops"  # the queue of the bookkeeping, which every desk has a worker for


def watch_worker(desk: Desk, role: str, signer: Signer | None = None) -> None:
    """If a port is set. Raises SettingError when the address cannot be had."""
    desk.watch.add(lambda: _own(desk, signer))
    if OF_THE_DESK in WORKER_QUEUES[role].split(","):
        parts = {"database": lambda: _database(desk), "redis": lambda: _broker(desk), "processes": lambda: _lives(desk)}
        desk.watch.add(Exporter(parts).collect)
    desk.watch.serve(role)


def _own(desk: Desk, signer: Signer | None) -> Iterator[GaugeMetricFamily]:
    servers, trouble = app_servers(desk)
    keeper = desk.lease_keeper()
    held, known = keeper.count() if keeper is not None else 0, servers if trouble is None else None
    refused = signer.refused if signer is not None else None
    yield from families(read_own(held, known, desk.shortages.short, refused))


def _database(desk: Desk) -> Reading:
    with desk.store.read() as session:
        return read_database(session, desk.settings)


def _lives(desk: Desk) -> Reading:
    scheduled = False
    with suppress(DeskError, SQLAlchemyError), desk.store.read() as session:
        scheduled = any(one.enabled for one in entries(session, desk.settings))
    return read_lives(life.of_desk(desk.settings), scheduled=scheduled)


def _broker(desk: Desk) -> Reading:
    return read_broker(desk.redis_client)
