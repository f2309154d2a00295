"""Events on the Redis streams: each once, in order, bounded, and without harm when Redis is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, pairwise

import orjson
import pytest
import redis
from structlog.testing import capture_logs

from chordesk.models.events import MOST, Batch, Envelope, EventType, batches, event, joined
from chordesk.tasks.events import streams as publishing
from chordesk.tasks.events.streams import ALL, EXPIRE_SECONDS, Publisher, entries, key_of, read_entry
from tests.stack import wait_for
from tests.tasks.events.kit import RedisServer, a_note


@pytest.fixture
def client(redis_own: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_own.url) as found:
        yield found


def on(client: redis.Redis, key: str) -> list[Envelope]:
    return [one for _, fields in client.xrange(key) for one in read_entry(fields)]


def stored(run_id: str, first: int, last: int) -> list[Batch]:
    """Return events with these sequences, as a commit publishes them."""
    return list(batches(run_id, first, [a_note(run_id, number) for number in range(first, last + 1)]))


def placed(*batches: Batch) -> list[Envelope]:
    return [one for batch in batches for one in batch.placed()]


def test_an_event_is_on_its_runs_stream_and_on_the_desks(redis_own: RedisServer, client: redis.Redis) -> None:
    publisher = Publisher(redis_own.url, 100)
    one, two, three = stored("a", 1, 1), stored("b", 1, 1), stored("a", 2, 2)
    for given in (one, two, three):
        publisher.publish(given)
    publisher.close()
    assert on(client, key_of("a")) == placed(*one, *three)
    assert on(client, key_of("b")) == placed(*two)
    ids = sorted(each.event_id for each in placed(*one, *two, *three))
    assert sorted(each.event_id for each in on(client, ALL)) == ids
    assert 0 < client.ttl(key_of("a")) <= EXPIRE_SECONDS
    assert client.ttl(ALL) == -1


def test_a_stream_holds_no_more_than_it_may(redis_own: RedisServer, client: redis.Redis) -> None:
    publisher = Publisher(redis_own.url, 200)
    for start in range(0, 3000, 100):
        publisher.publish(stored("a", start + 1, start + 100))
    publisher.close(20)
    for key in (key_of("a"), ALL):
        found = on(client, key)
        assert 200 // MOST <= len(found) <= 200
        assert [one.sequence for one in found] == list(range(3001 - len(found), 3001))


def test_events_that_come_singly_fill_a_stream_sooner(redis_own: RedisServer, client: redis.Redis) -> None:
    publisher = Publisher(redis_own.url, 100)
    for number in range(1, 8):
        publisher.publish(stored("a", number, number))
        wait_for(lambda last=number: client.xlen(ALL) and on(client, ALL)[-1].sequence == last, "it is published")
    publisher.close()
    assert [one.sequence for one in on(client, key_of("a"))] == [3, 4, 5, 6, 7]


def test_batches_that_go_on_from_each_other_share_an_entry() -> None:
    deltas = [event(EventType.ITEM_DELTA, "a", text=text) for text in "xy"]
    given = [*stored("a", 2, 8), *stored("a", 9, 19), *stored("a", 20, 24), *stored("a", 26, 27)]
    given += [batch for one in deltas for batch in batches("a", None, [one])]
    found = joined(given)
    assert [len(batch.events) for batch in found] == [18, 5, 2, 2]
    values = [str(value).encode() for value in entries(found)]
    read = [read_entry({b"first": first, b"events": text}) for first, text in pairwise(values)][::2]
    assert list(chain.from_iterable(read)) == placed(*found) == placed(*given)


def test_one_unreadable_event_hides_no_other_of_its_entry() -> None:
    (batch,) = stored("a", 4, 5)
    spoilt = orjson.dumps([*orjson.loads(batch.text), {"type": "of.tomorrow"}, 7, *orjson.loads(batch.text)])
    with capture_logs() as lines:
        found = list(read_entry({b"first": b"4", b"events": spoilt}))
    assert [one.sequence for one in found] == [4, 5, 8, 9]
    assert [one.event_id for one in found] == [one.event_id for one in batch.events] * 2
    assert [line["event"] for line in lines] == ["events.unreadable"] * 2


@pytest.mark.parametrize(
    "fields",
    [{}, {b"first": b"x", b"events": b"[]"}, {b"first": b"1", b"events": b"{"}, {b"first": b"", b"events": b"7"}],
)
def test_an_entry_that_is_none_of_ours_is_left_out(fields: dict[bytes, bytes]) -> None:
    with capture_logs() as lines:
        assert list(read_entry(fields)) == []
    assert [line["event"] for line in lines] == ["events.unreadable"]


def test_while_redis_is_away_events_are_left_out_with_one_warning(redis_own: RedisServer, client: redis.Redis) -> None:
    publisher = Publisher(redis_own.url, 100)
    redis_own.kill()
    with capture_logs() as lines:
        publisher.publish(stored("a", 1, 2))
        wait_for(lambda: publisher.dropped == 2, "they are left out")
        publisher.publish(stored("a", 3, 3))
        wait_for(lambda: publisher.dropped == 3, "it is left out")
        redis_own.start()
        wait_for(lambda: _published(publisher, client), "it goes on")
    publisher.close()
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["events.not_published"]
    assert {"event": "events.published_again", "left_out": 3, "log_level": "info"} in lines


def _published(publisher: Publisher, client: redis.Redis) -> bool:
    publisher.publish(stored("a", 4, 4))
    time.sleep(0.05)
    return bool(client.exists(key_of("a")))


def test_more_than_the_queue_holds_is_left_out(redis_own: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "QUEUED_MOST", 5)
    publisher = Publisher(redis_own.url, 100)
    publisher.publish([batch for number in range(1, 9) for batch in stored("a", number, number)])
    assert publisher.dropped == 3
    publisher.close()


def test_closing_sends_what_is_queued_and_ends_without_redis_too(redis_own: RedisServer, client: redis.Redis) -> None:
    publisher = Publisher(redis_own.url, 10_000)
    publisher.publish(stored("a", 1, 1200))
    publisher.close(20)
    assert [one.sequence for one in on(client, key_of("a"))] == list(range(1, 1201))
    away = Publisher("unix:///nowhere/redis", 100)
    away.publish(stored("a", 1, 1))
    away.close(20)
    assert away.dropped == 1
    Publisher(redis_own.url, 100).close()  # one that never had anything to say


def test_one_instance_is_what_is_logged(redis_own: RedisServer) -> None:
    one = event(EventType.TURN_STARTED, "a", turn_id="u", role="quick")
    publisher = Publisher(redis_own.url, 100)
    with capture_logs() as lines:
        publisher.publish(list(batches("a", 7, [one])))
        publisher.close()
    (line,) = [line for line in lines if line["event"] == "event"]
    assert (line["event_id"], line["sequence"], line["type"], line["turn_id"]) == (one.event_id, 7, "turn.started", "u")
    assert line["payload"] == {"role": "quick"}
