"""One client a channel, as long as its connections; and kombu's failure that the guard is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from kombu.transport.redis import Channel
from redis.exceptions import ConnectionError as RedisConnectionError

from tasks import guards, transport


@pytest.fixture
def channel(app: Celery) -> Iterator[Any]:
    with app.connection_for_write() as connection:
        yield connection.default_channel


def test_a_channel_keeps_one_client(channel: Any) -> None:
    first = channel._create_client()
    assert first.ping()
    with channel.conn_or_acquire() as client:
        assert client is first
    assert channel._create_client() is first


def test_each_channel_has_its_own(app: Celery) -> None:
    with app.connection_for_write() as connection:
        one, other = connection.channel(), connection.channel()
        assert one._create_client() is not other._create_client()


def test_a_new_pool_gets_a_new_client(channel: Any) -> None:
    first = channel._create_client()
    channel._disconnect_pools()  # what kombu does when a connection breaks
    second = channel._create_client()
    assert second is not first
    assert second.connection_pool is channel.pool
    assert second.ping()


def test_the_client_of_the_event_loop_is_another(channel: Any) -> None:
    assert channel._create_client(asynchronous=True) is not channel._create_client()


def test_a_channel_without_its_connection_says_so(channel: Any) -> None:
    """Without the guard: AttributeError, 'NoneType' object has no attribute 'hostname'."""
    channel._connparams()
    kept, channel.connection.client = channel.connection.client, None
    try:
        with pytest.raises(RedisConnectionError, match="lost its connection"):
            channel._connparams()
    finally:
        channel.connection.client = kept


def test_the_patches_are_laid_once(app: Celery) -> None:
    before = Channel._connparams, Channel._create_client
    guards.guard_lost_connection()
    transport.keep_clients()
    assert (Channel._connparams, Channel._create_client) == before


def test_held_messages_are_refreshed_and_settled_ones_are_not(app: Celery, channel: Any) -> None:
    held, settled, gone = "held", "settled", "gone"
    channel.qos._delivered.update(dict.fromkeys((held, settled, gone)))
    channel.qos._dirty.add(settled)
    with channel.conn_or_acquire() as client:
        client.zadd(channel.unacked_index_key, {held: 1.0, settled: 1.0, "anothers": 1.0})
        assert guards.refresh(channel) == 2
        scores = dict(client.zrange(channel.unacked_index_key, 0, -1, withscores=True))
    channel.qos._delivered.clear()
    assert scores.pop(b"held") > 1e9
    assert scores == {b"settled": 1.0, b"anothers": 1.0}  # and what had gone is not put back
