"""The page's login: one-time codes and sessions, in the desk's Redis, where `desk page` and the service both see them.

Redis has hashes alone, and forgets them by itself: whoever reads it finds nothing to log in with. Ending all sessions
raises a number that each code and session was made with, so it needs no list of them. A device is a session with a name
that stays for thirty days; these are listed, so that one can be revoked.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from chordesk.models.answers import Frozen
from chordesk.models.errors import NotFound, RedisDown, TooManyCodes, UsageError, WrongCode
from chordesk.models.tables.columns import utcnow
from chordesk.tasks import redis_clients

CODE_SECONDS = 60
SESSION_SECONDS = 12 * 3600
DEVICE_SECONDS = 30 * 24 * 3600
REDIS_SECONDS = 2.0
MOST_WRONG = 10  # codes within a minute; the next one, right or wrong, waits
WRONG_SECONDS = 60.0
BYTES = 32
GENERATION = "desk:page:generation"
DEVICES = "desk:page:devices"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class PageSession(Frozen):
    """A login of the page. by: the person's name, for the record; until: its end. device: its name, where it stays;
    scopes: what it may do, None for all."""

    by: str
    until: dt.datetime
    device: str | None = None
    scopes: list[str] | None = None


class NewSession(PageSession):
    """A login as it begins. token: for the Authorization header; it is shown this once."""

    token: str


class Device(Frozen):
    """A browser that stays logged in. since, until: of its login."""

    name: str
    by: str
    scopes: list[str] | None
    since: dt.datetime
    until: dt.datetime


def code_key(code: str) -> str:
    return f"desk:page:code:{_digest(code)}"


def session_key(token: str) -> str:
    return f"desk:page:session:{_digest(token)}"


def _sealed(place: str, kept: dict[str, Any], key: str | None) -> str:
    """With the key an HMAC: whoever writes to Redis cannot make a login, or change its person."""
    text = json.dumps(kept)
    return text if key is None else f"{_mac(place, text, key)}{text}"


def _unsealed(place: str, given: str | bytes | None, key: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    found = given.decode() if isinstance(given, bytes) else given
    mac, text = (found[:64], found[64:]) if key is not None else ("", found)
    if key is not None and not hmac.compare_digest(mac.encode(), _mac(place, text, key).encode()):
        return None
    kept: dict[str, Any] = json.loads(text)
    return kept


def _mac(place: str, text: str, key: str) -> str:
    return hmac.new(key.encode(), f"chordesk login 1\n{place}\n{text}".encode(), hashlib.sha256).hexdigest()


def new_code(
    address: str, by: str, key: str | None = None, *, device: str | None = None, scopes: Sequence[str] | None = None
) -> str:
    """For one login within a minute. key: of the desk's messages. device: the name of one that stays; scopes: what it
    may do, None for all. Raises RedisDown, SettingError; UsageError for the name of a device that is logged in."""
    if device is not None and any(one.name == device for one in devices(address, key)):
        remedy = f"`desk page --revoke {device!r}` ends it; or give another name"
        raise UsageError(f"there is a device {device!r} already", remedy=remedy)
    server = redis_clients.client(address, REDIS_SECONDS)
    code = secrets.token_urlsafe(BYTES)
    try:
        kept = {"by": by, "generation": _number(server.get(GENERATION)), "device": device, "scopes": scopes}
        server.set(code_key(code), _sealed(code_key(code), kept, key), ex=CODE_SECONDS)
    except redis.RedisError as error:
        raise RedisDown(f"Redis does not answer: {error}") from None
    finally:
        server.close()
    return code


def devices(address: str, key: str | None = None) -> list[Device]:
    """Return the devices that are logged in, by name. Raises RedisDown, SettingError."""
    server = redis_clients.client(address, REDIS_SECONDS)
    try:
        return [device for device, _ in _listed(server, key)]
    except redis.RedisError as error:
        raise RedisDown(f"Redis does not answer: {error}") from None
    finally:
        server.close()


def _listed(server: Any, key: str | None) -> Iterator[tuple[Device, str]]:
    """Yield each device with the place of its session; of another generation, over or not sealed by the desk none."""
    generation = _number(server.get(GENERATION))
    for field, text in sorted(server.hgetall(DEVICES).items()):
        name = field.decode() if isinstance(field, bytes) else field
        kept = _unsealed(_device_place(name), text, key)
        if kept is not None and kept.pop("generation") == generation:
            place, device = kept.pop("place"), Device.model_validate(kept)
            if device.until > utcnow():
                yield device, place


def _device_place(name: str) -> str:
    return f"{DEVICES}:{name}"


def revoke_device(address: str, name: str, key: str | None = None) -> None:
    """End the session of a device, at once. Raises NotFound, RedisDown, SettingError."""
    server = redis_clients.client(address, REDIS_SECONDS)
    try:
        place = next((place for device, place in _listed(server, key) if device.name == name), None)
        if place is None:
            raise NotFound(f"no device {name!r} is logged in", remedy="`desk page --devices` lists them")
        server.delete(place)
        server.hdel(DEVICES, name)
    except redis.RedisError as error:
        raise RedisDown(f"Redis does not answer: {error}") from None
    finally:
        server.close()


def end_all(address: str) -> None:
    """End every session, and make every code useless. Raises RedisDown, SettingError."""
    server = redis_clients.client(address, REDIS_SECONDS)
    try:
        server.incr(GENERATION)
    except redis.RedisError as error:
        raise RedisDown(f"Redis does not answer: {error}") from None
    finally:
        server.close()


class Sessions:
    """The sessions as the service sees them; of one event loop. key: of the desk's messages. Each method raises
    RedisDown."""

    def __init__(self, address: str, now: Callable[[], float] = time.monotonic, key: str | None = None) -> None:
        self._key = key
        self._redis = redis.asyncio.Redis.from_url(
            address, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS,
            retry=Retry(NoBackoff(), 1), decode_responses=True,
        )  # fmt: skip
        self._now = now
        self._wrong: deque[float] = deque(maxlen=MOST_WRONG)

    async def begin(self, code: str) -> NewSession:
        """Take a code for a session. Raises WrongCode, TooManyCodes."""
        if len(self._wrong) == MOST_WRONG and self._now() - self._wrong[0] < WRONG_SECONDS:
            raise TooManyCodes("there were too many wrong login codes")
        # To read and delete is one step: of two that show a code at once, one is let in.
        kept, generation = await self._taken(code)
        if kept is None or kept["generation"] != generation:
            self._wrong.append(self._now())
            raise WrongCode("this login link was used already, is older than a minute, or is not one of this desk's")
        device, scopes = kept.get("device"), kept.get("scopes")
        seconds = SESSION_SECONDS if device is None else DEVICE_SECONDS
        token, now = secrets.token_urlsafe(BYTES), utcnow()
        place, until = session_key(token), now + dt.timedelta(seconds=seconds)
        made = {"by": kept["by"], "until": until.isoformat(), "generation": generation}
        made |= {"device": device, "scopes": scopes}
        try:
            await self._redis.set(place, _sealed(place, made, self._key), ex=seconds)
            if device is not None:
                await self._list(device, {**made, "name": device, "since": now.isoformat(), "place": place})
        except redis.RedisError as error:
            raise _down(error) from None
        return NewSession(by=kept["by"], until=until, token=token, device=device, scopes=scopes)

    async def _list(self, name: str, kept: dict[str, Any]) -> None:
        """List a device; one of the same name, of two codes that were made at once, ends."""
        before = _unsealed(_device_place(name), await self._redis.hget(DEVICES, name), self._key)
        del kept["device"]
        await self._redis.hset(DEVICES, name, _sealed(_device_place(name), kept, self._key))
        if before is not None:
            await self._redis.delete(before["place"])

    async def _taken(self, code: str) -> tuple[dict[str, Any] | None, int]:
        if not _TOKEN.fullmatch(code):
            return None, 0
        try:
            kept = await self._redis.getdel(code_key(code))
            return _unsealed(code_key(code), kept, self._key), _number(await self._redis.get(GENERATION))
        except redis.RedisError as error:
            raise _down(error) from None

    async def find(self, token: str) -> PageSession | None:
        if not _TOKEN.fullmatch(token):
            return None
        try:
            text, generation = await self._redis.mget(session_key(token), GENERATION)
        except redis.RedisError as error:
            raise _down(error) from None
        kept = _unsealed(session_key(token), text, self._key)
        if kept is None or kept["generation"] != _number(generation):
            return None
        until, device = dt.datetime.fromisoformat(kept["until"]), kept.get("device")
        return PageSession(by=kept["by"], until=until, device=device, scopes=kept.get("scopes"))

    async def end(self, token: str) -> None:
        found = await self.find(token)
        try:
            await self._redis.delete(session_key(token))
            if found is not None and found.device is not None:
                await self._redis.hdel(DEVICES, found.device)
        except redis.RedisError as error:
            raise _down(error) from None

    async def end_all(self) -> None:
        try:
            await self._redis.incr(GENERATION)
        except redis.RedisError as error:
            raise _down(error) from None

    async def close(self) -> None:
        await self._redis.aclose()


def _down(error: redis.RedisError) -> RedisDown:
    return RedisDown(f"Redis does not answer, so no login can be looked up: {error}")


def _number(text: object) -> int:
    return int(text) if isinstance(text, (str, bytes)) else 0


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
