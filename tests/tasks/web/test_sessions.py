"""Codes and sessions: each code once and for a minute, hashes alone in Redis, and an end for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from chordesk.models.errors import NotFound, RedisDown, TooManyCodes, UsageError, WrongCode
from chordesk.tasks.web.page.page_sessions import (
    CODE_SECONDS,
    DEVICE_SECONDS,
    MOST_WRONG,
    SESSION_SECONDS,
    Sessions,
    code_key,
    devices,
    end_all,
    new_code,
    revoke_device,
    session_key,
)


@pytest.fixture
def server(redis_server: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
        yield client


async def test_who_writes_to_redis_makes_no_login_and_no_other_person_of_one(
    server: redis.Redis, redis_server: str
) -> None:
    sessions, key = Sessions(redis_server, key="k" * 32), "k" * 32
    begun = await sessions.begin(new_code(redis_server, "Ann", key))
    assert await sessions.find(begun.token) is not None
    place = session_key(begun.token)
    text = server.get(place)
    assert isinstance(text, bytes)
    for written in (text.replace(b"Ann", b"Bob"), text[64:], b""):
        server.set(place, written)
        assert await sessions.find(begun.token) is None
    server.set(session_key("t" * 43), text)
    assert await sessions.find("t" * 43) is None
    with pytest.raises(WrongCode):
        await sessions.begin(new_code(redis_server, "Bob", "another key of 32 characters...."))
    await sessions.close()


@pytest.mark.usefixtures("server")
async def test_a_code_is_for_one_session(redis_server: str) -> None:
    sessions = Sessions(redis_server)
    code = new_code(redis_server, "Ann")
    begun = await sessions.begin(code)
    found = await sessions.find(begun.token)
    assert found is not None
    assert (found.by, found.until) == ("Ann", begun.until)
    for wrong in (code, "x" * 43, "", "é" * 43, f"{code} ", begun.token):
        with pytest.raises(WrongCode):
            await sessions.begin(wrong)
    await sessions.end(begun.token)
    assert await sessions.find(begun.token) is None
    await sessions.close()


async def test_redis_has_no_code_and_no_token_and_forgets_both(server: redis.Redis, redis_server: str) -> None:
    sessions = Sessions(redis_server)
    code = new_code(redis_server, "Ann")
    assert 0 < server.ttl(code_key(code)) <= CODE_SECONDS
    begun = await sessions.begin(code)
    assert SESSION_SECONDS - 60 < server.ttl(session_key(begun.token)) <= SESSION_SECONDS
    kept = b" ".join([*server.keys("*"), *(server.get(key) for key in server.keys("*"))])
    assert code.encode() not in kept
    assert begun.token.encode() not in kept
    await sessions.close()


async def test_a_late_code_is_refused(server: redis.Redis, redis_server: str) -> None:
    sessions = Sessions(redis_server)
    code = new_code(redis_server, "Ann")
    server.expire(code_key(code), 0)
    with pytest.raises(WrongCode, match="older than a minute"):
        await sessions.begin(code)
    await sessions.close()


@pytest.mark.usefixtures("server")
async def test_the_end_of_all_ends_codes_too_and_later_ones_work(redis_server: str) -> None:
    sessions = Sessions(redis_server)
    first, code = await sessions.begin(new_code(redis_server, "Ann")), new_code(redis_server, "Bo")
    end_all(redis_server)
    assert await sessions.find(first.token) is None
    with pytest.raises(WrongCode):
        await sessions.begin(code)
    later = await sessions.begin(new_code(redis_server, "Ann"))
    assert await sessions.find(later.token) is not None
    await sessions.end_all()
    assert await sessions.find(later.token) is None
    await sessions.close()


@pytest.mark.usefixtures("server")
async def test_after_many_wrong_codes_a_right_one_waits_too(redis_server: str) -> None:
    clock = [0.0]
    sessions = Sessions(redis_server, lambda: clock[0])
    for _ in range(MOST_WRONG):
        with pytest.raises(WrongCode):
            await sessions.begin("w" * 43)
    code = new_code(redis_server, "Ann")
    with pytest.raises(TooManyCodes):
        await sessions.begin(code)
    clock[0] = 60.0
    assert (await sessions.begin(code)).by == "Ann"
    await sessions.close()


async def test_without_redis_no_login_works(tmp_path: object) -> None:
    address = f"unix://{tmp_path}/none.sock"
    sessions = Sessions(address)
    for doing in (sessions.begin("A" * 43), sessions.find("A" * 43), sessions.end("A" * 43), sessions.end_all()):
        with pytest.raises(RedisDown):
            await doing
    with pytest.raises(RedisDown):
        new_code(address, "Ann")
    await sessions.close()


async def test_a_device_stays_for_thirty_days_with_its_scopes_until_it_is_revoked(
    server: redis.Redis, redis_server: str
) -> None:
    sessions, key = Sessions(redis_server, key="k" * 32), "k" * 32
    first = new_code(redis_server, "Ann", key, device="phone", scopes=["decide", "read"])
    phone = await sessions.begin(first)
    found = await sessions.find(phone.token)
    assert found is not None
    assert (found.by, found.device, found.scopes) == ("Ann", "phone", ["decide", "read"])
    assert DEVICE_SECONDS - 60 < server.ttl(session_key(phone.token)) <= DEVICE_SECONDS
    with pytest.raises(UsageError, match="there is a device 'phone' already"):
        new_code(redis_server, "Ann", key, device="phone")
    listed = devices(redis_server, key)
    assert [(one.name, one.by, one.scopes) for one in listed] == [("phone", "Ann", ["decide", "read"])]
    assert devices(redis_server, "another key of 32 characters....") == [], "who writes to Redis lists none"
    revoke_device(redis_server, "phone", key)
    assert await sessions.find(phone.token) is None
    with pytest.raises(NotFound, match="no device 'phone' is logged in"):
        revoke_device(redis_server, "phone", key)
    tablet = await sessions.begin(new_code(redis_server, "Ann", key, device="tablet"))
    await sessions.end(tablet.token)
    assert devices(redis_server, key) == []
    await sessions.begin(new_code(redis_server, "Ann", key, device="tablet"))
    end_all(redis_server)
    assert devices(redis_server, key) == []
    await sessions.close()


@pytest.mark.usefixtures("server")
async def test_of_two_codes_for_one_device_the_later_login_stays(redis_server: str) -> None:
    sessions = Sessions(redis_server)
    codes = [new_code(redis_server, "Ann", device="phone") for _ in range(2)]
    one, other = [await sessions.begin(code) for code in codes]
    assert await sessions.find(one.token) is None
    assert await sessions.find(other.token) is not None
    await sessions.close()
