"""JSON of venues over HTTP with limits of time, size and pace, its shapes checked strictly; errors name the venue."""

from __future__ import annotations

import datetime as dt
import math
import ssl
import time
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

import httpx
import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.models.urls import is_loopback
from chordesk.tools.market.fetching import REQUEST_SECONDS, OutOfTime, Source, retry_after, source_at, within

T = TypeVar("T")
_SHOWN = 60  # characters of a field that is not as documented

AGENT = "chordesk"
MOST_BYTES = 8 * 2**20
SHORT_SECONDS = 1.0  # before the one retry after "too many requests"
MOST_REST_SECONDS = 86_400.0  # a longer one that an answer states is not believed
Params = Mapping[str, str | int | float]


def venue_at(name: str, base: str) -> JsonClient:
    """Return a client of an address; all of a process share its pace."""
    return JsonClient(base, source_at(base, name))


class _TooManyRequests(Exception):
    """An answer of status 429. seconds: to wait as it states, None where it states none."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__()
        self.seconds = seconds


class JsonClient:
    """Requests to one address of a venue; threads may share it."""

    def __init__(self, base: str, source: Source, seconds: float = REQUEST_SECONDS) -> None:
        self.venue = source.name
        self._base, self._source, self._seconds = base.rstrip("/"), source, seconds
        address = httpx.URL(self._base)
        # A proxy has no business between us and loopback. No redirect is followed: it would leave the address.
        self._http = httpx.Client(
            timeout=seconds,
            headers={"User-Agent": AGENT, "Accept": "application/json"},
            follow_redirects=False,
            trust_env=not is_loopback(address.host),
            verify=_tls() if address.scheme == "https" else False,
        )

    def get(self, shape: TypeAdapter[T], path: str, params: Params | None = None) -> T:
        """Return an answer in its documented shape. Raises MarketError where the venue has no such thing,
        MarketUnavailable when it does not answer, or answers otherwise than it documents, with the first field that
        differs."""
        return self._ask(shape, self._http.build_request("GET", self._base + path, params=params))

    def post(self, shape: TypeAdapter[T], path: str, body: Any) -> T:
        return self._ask(shape, self._http.build_request("POST", self._base + path, json=body))

    def _ask(self, shape: TypeAdapter[T], request: httpx.Request) -> T:
        """Ask within the time limit, and once more where the venue asks us to wait a moment."""
        self._source.wait()
        until = time.monotonic() + self._seconds
        try:
            return self._once(shape, request, self._seconds)
        except _TooManyRequests as busy:
            pause = SHORT_SECONDS if busy.seconds is None else busy.seconds
            if time.monotonic() + pause >= until:
                raise self._source.limited(busy.seconds) from None
        time.sleep(pause)
        try:
            return self._once(shape, request, max(until - time.monotonic(), 0.1))
        except _TooManyRequests as busy:
            raise self._source.limited(busy.seconds) from None

    def _once(self, shape: TypeAdapter[T], request: httpx.Request, seconds: float) -> T:
        try:
            status, headers, body = within(seconds, lambda: self._sent(request), f"{self.venue}-request")
        except OutOfTime as error:
            raise MarketUnavailable(f"{self.venue} does not answer: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise MarketUnavailable(f"{self.venue} does not answer: {_reason(error, seconds)}") from None
        if status == 429:
            raise _TooManyRequests(retry_after(headers.get("Retry-After"), MOST_REST_SECONDS))
        if status != 200:
            raise self._refused(status, request)
        return self._read(shape, headers, body)

    def _sent(self, request: httpx.Request) -> tuple[int, httpx.Headers, bytes]:
        response = self._http.send(request, stream=True)
        try:
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise MarketUnavailable(f"{self.venue}'s answer is larger than {MOST_BYTES // 2**20} MB")
            return response.status_code, response.headers, bytes(body)
        finally:
            response.close()

    def _read(self, shape: TypeAdapter[T], headers: httpx.Headers, body: bytes) -> T:
        try:
            return shape.validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            kind = headers.get("Content-Type", "of no stated type").partition(";")[0]
            start = body[:40].decode("utf-8", "replace")
            raise MarketUnavailable(
                f"{self.venue}'s answer could not be read: no whole JSON, but {kind} that begins {start!r}"
            )
        place = ".".join(str(part) for part in first["loc"]) or "the answer"
        given = repr(first["input"])
        shown = given if len(given) <= _SHOWN else given[:_SHOWN] + "..."
        raise unreadable(self.venue, place, f"{first['msg']}, and is {shown}")

    def _refused(self, status: int, request: httpx.Request) -> MarketError | MarketUnavailable:
        if status == 404:
            return MarketError(f"{self.venue} has nothing at {request.url.path[:200]}")
        if 400 <= status < 500 and status != 408:
            return MarketError(f"{self.venue} refuses the request (HTTP {status}) for {request.url.path[:200]}")
        return MarketUnavailable(f"{self.venue} does not answer: HTTP {status}")


@cache
def _tls() -> ssl.SSLContext:
    """Return the trust roots that all clients of a process share: loading them takes 0.1 s."""
    return httpx.create_ssl_context()


def _reason(error: Exception, seconds: float) -> str:
    """Return the reason of a request without an answer; no address, which may be long."""
    if isinstance(error, httpx.TimeoutException):
        return f"no whole answer within {seconds:g} s"
    if isinstance(error, httpx.RemoteProtocolError):
        return "it ended before its end"
    if isinstance(error, httpx.ConnectError):
        return "no connection"
    return type(error).__name__


# Shapes of venues' answers, checked strictly: a number in place of a text is an answer that the venue does not
# document, and nothing is read from it.


class Shape(BaseModel):
    """The fields of an answer that the desk reads; others may come and go."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


def _number_in_text(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("documented as a text that holds a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("is no finite number")
    return number


def _texts_in_text(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ValueError("documented as a text that holds a JSON list")
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise ValueError("holds no JSON") from None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("documented as a JSON list of texts")
    return tuple(found)


def _moment_in_text(value: Any) -> dt.datetime:
    if not isinstance(value, str):
        raise ValueError("documented as a text that holds a time")
    found = dt.datetime.fromisoformat(value)
    return found.astimezone(dt.UTC) if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _moment_in_ms(value: Any) -> dt.datetime | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("documented as a number of milliseconds")
    try:
        return dt.datetime.fromtimestamp(value / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None  # beyond the calendar: never


NumberText = Annotated[float, BeforeValidator(_number_in_text)]
PriceText = Annotated[float, BeforeValidator(_number_in_text), Field(ge=0, le=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
TextsText = Annotated[tuple[str, ...], BeforeValidator(_texts_in_text)]
MomentText = Annotated[dt.datetime, BeforeValidator(_moment_in_text)]
MomentMs = Annotated[dt.datetime | None, BeforeValidator(_moment_in_ms)]


def unreadable(venue: str, field: str, reason: str) -> MarketUnavailable:
    return MarketUnavailable(f"{venue}'s answer could not be read: {field}: {reason}")
