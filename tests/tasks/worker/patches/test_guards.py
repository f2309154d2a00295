"""Guards around kombu's Redis transport: a lost connection, and messages that a worker holds for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from redis.exceptions import ConnectionError as RedisConnectionError

from chordesk.tasks.worker import celery_fixes


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
