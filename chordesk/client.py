"""Start a run, follow its events and read its result: `Client.local()` beside a running desk, or `Client.http(url,
token)` through its service. Both give the same JSON values, and raise DeskError with a remedy."""

from __future__ import annotations

import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from chordesk.models.errors import DeskError, ServiceError, UsageError
from chordesk.models.logs import keep_apart

__all__ = ["Client", "DeskError"]

POLL_SECONDS = 0.3
REDIS_SECONDS = 3.0
HTTP_SECONDS = 60.0  # without a byte: the service sends a comment every few seconds
_EVENTS = 500
T = TypeVar("T")

keep_apart()


class Client(ABC):
    """A desk. Threads may share it."""

    @staticmethod
    def local(by: str = "a program") -> Client:
        """Return the desk of this process's settings, as a command of this shell would use it. by: the person's or
        program's name, for the record of each run. Raises DeskError unless Redis and the database answer."""
        return _Local(by)

    @staticmethod
    def http(url: str, token: str, by: str = "a program") -> Client:
        """Return the desk that `desk api` serves at a URL, with the token that it names at its start."""
        return _Http(url, token, by)

    @abstractmethod
    def start(self, kind: str, **request: Any) -> str:
        """Start a run and return its id. kind: screen, research, analyze, episode or trade; request: its fields, as
        those of `POST /runs`, such as symbols. Raises DeskError for a field that is wrong."""

    @abstractmethod
    def follow(self, run: str, since: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the events of a run after a sequence, stored ones first and then live, until it has ended and none of
        its orders or requests is open."""

    @abstractmethod
    def result(self, run: str) -> dict[str, Any]:
        """Return the whole run as it is now, as `GET /runs/RUN` does: `progress` says whether it has ended."""


class _Local(Client):
    def __init__(self, by: str) -> None:
        from chordesk.models.database.store import require_current
        from chordesk.models.settings.sources import load_settings
        from chordesk.tasks.redis_clients import redis_url, wait_ready
        from chordesk.tasks.worker.app import create_app

        self._by = by
        self._app = create_app(load_settings(), "client")
        self._desk = self._app.desk
        require_current(self._desk.settings.database)
        wait_ready(redis_url(self._desk.settings), REDIS_SECONDS)

    def start(self, kind: str, **request: Any) -> str:
        from pydantic import TypeAdapter, ValidationError

        from chordesk.tasks.workflows.runs import request_type

        try:
            asked = TypeAdapter[Any](request_type()).validate_python({"by": self._by, **request, "kind": kind})
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'kind'}: {each['msg']}" for each in error.errors())
            raise UsageError(wrong, remedy="the reference of POST /runs lists each kind's fields") from None
        run: str = asked.open(self._app).id
        return run

    def follow(self, run: str, since: int = 0) -> Iterator[dict[str, Any]]:
        from chordesk.models import event_log
        from chordesk.tasks.events.feed import is_over

        run_id = self._read(lambda session, row: row.id, run)
        while True:
            with self._desk.store.read() as session:
                over = is_over(session, run_id)  # asked first: what comes before the end is read after it
                found = event_log.read(session, run_id, since, _EVENTS)
            for event in found:
                since = event.sequence or since
                yield event.model_dump(mode="json")
            if over and not found:
                return
            if not found:
                time.sleep(POLL_SECONDS)

    def result(self, run: str) -> dict[str, Any]:
        from chordesk.tasks.reading.run_details import detail

        settings = self._desk.settings
        return self._read(lambda session, row: detail(session, settings, row).model_dump(mode="json"), run)

    def _read(self, read: Callable[[Any, Any], T], run: str) -> T:
        from chordesk.models.database.lookup import by_prefix
        from chordesk.models.tables.runs import Run

        with self._desk.store.read() as session:
            return read(session, by_prefix(session, Run, run))


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A desk's service redirects nothing; the header with the token would go along."""


class _Http(Client):
    def __init__(self, url: str, token: str, by: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is not the URL of a desk", remedy="give the one that `desk api` prints")
        self._url, self._token, self._by = url.rstrip("/"), token, by
        self._open = build_opener(ProxyHandler({}), _NoRedirect).open  # the token goes to the service alone

    def start(self, kind: str, **request: Any) -> str:
        body = json.dumps({"by": self._by, **request, "kind": kind}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        with self._ask("/runs", body, headers) as answer:
            return str(json.load(answer)["id"])

    def follow(self, run: str, since: int = 0) -> Iterator[dict[str, Any]]:
        with self._ask(f"/runs/{quote(run, safe='')}/events?{urlencode({'since': since})}") as answer:
            kind = ""
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "problem":
                    raise _refused(json.loads(value))
                elif name == "data":
                    yield json.loads(value)
                elif not name:
                    kind = ""

    def result(self, run: str) -> dict[str, Any]:
        with self._ask(f"/runs/{quote(run, safe='')}") as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _ask(self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
        given = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        try:
            return self._open(Request(self._url + path, body, given), timeout=HTTP_SECONDS)
        except HTTPError as error:
            with error:
                raise _refused(_problem(error)) from None
        except (URLError, TimeoutError) as error:
            remedy = "start it with `desk api`, or correct the URL"
            raise ServiceError(f"the desk at {self._url} does not answer: {error}", remedy=remedy) from None


def _problem(error: HTTPError) -> dict[str, Any]:
    try:
        found = json.load(error)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"detail": f"the answer is {error.code} {error.reason}, not a desk's"}


def _refused(problem: Mapping[str, Any]) -> DeskError:
    return DeskError(str(problem.get("detail")), remedy=str(problem.get("remedy", "")))
