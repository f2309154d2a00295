"""What each process of the desk says of itself in the database while it lives: the settings that it runs with."""

from __future__ import annotations

import datetime as dt
import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import structlog
from redis.exceptions import RedisError
from sqlmodel import col, delete, select

from chordesk.models import home
from chordesk.models.database.store import AWAY, Store, desk_of, require_current
from chordesk.models.errors import DatabaseDown, DatabaseUnfit, RedisDown, UsageError
from chordesk.models.files import replacing
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import SECRETS
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Process
from chordesk.models.urls import masked
from chordesk.tasks import life
from chordesk.tasks.reading.setting_values import shown
from chordesk.tasks.redis_clients import client, is_private, redis_url

REDIS_SECONDS = 3.0
KEY = "desk:identity"
FILE = "identity"
PLACE_KEY, PLACE_SECONDS = "desk:home", 60


def require_redis(settings: Settings, desk: str) -> None:
    """Raise UsageError for a Redis of another desk than the database's, RedisDown when it does not answer."""
    address = redis_url(settings)
    try:
        with closing(client(address, REDIS_SECONDS)) as redis:
            redis.set(KEY, desk, nx=True)
            found = redis.get(KEY) or b""
            found = found.decode("ascii", "replace") if isinstance(found, bytes) else found
    except RedisError as error:
        if os.strerror(errno.ENOSPC) in str(error):  # it answers, and takes nothing
            message = f"Redis at {masked(address)} has no room: {error}"
            raise RedisDown(message, remedy="make room where it writes") from None
        raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
    if found != desk:
        raise _of_another(f"the Redis at {masked(address)}", found, desk)


def require_own(settings: Settings) -> None:
    """Raise UsageError for a Redis of another desk, or of another folder that this desk's was copied from or to;
    RedisDown when it does not answer. A Redis on a private socket is the folder's own."""
    if settings.redis_url is None or is_private(settings.redis_url.get_secret_value()):
        return
    require_redis(settings, desk_of(settings.database))
    if (place := _place(settings)) is None:
        return
    address = redis_url(settings)
    try:
        other = _other_place(settings, place)
    except RedisError as error:
        raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
    if other is not None:
        raise UsageError(
            f"the Redis at {masked(address)} is in use by a data folder of the same id, {other}: one is a copy",
            remedy=f"make one a desk of its own, `DESK_HOME={settings.home} desk db renew`, with a Redis of its own; a "
            f"folder that was moved, or whose desk was stopped, is forgotten after {PLACE_SECONDS} s",
        )


def _place(settings: Settings) -> str | None:
    """Return which folder this is, for a desk whose database is in it; of a fleet many have one database."""
    if not settings.database.startswith("sqlite"):
        return None
    try:
        found, known = settings.home.stat(), home.read(settings.home)
    except OSError:
        return None
    return f"{known.host}:{settings.home} ({found.st_dev}:{found.st_ino})" if known is not None else None


def _other_place(settings: Settings, place: str) -> str | None:
    """Keep this folder's place in Redis for some time; return that of another one which is there. Raises RedisError."""
    with closing(client(redis_url(settings), REDIS_SECONDS)) as redis:
        if redis.set(PLACE_KEY, place, nx=True, ex=PLACE_SECONDS):
            return None
        found = redis.get(PLACE_KEY)
        text = found.decode(errors="replace") if isinstance(found, bytes) else str(found or place)
        if text == place:
            redis.expire(PLACE_KEY, PLACE_SECONDS)
        return text if text != place else None


def require_home(settings: Settings, desk: str) -> None:
    """Raise UsageError for a data folder, with an audit log and HALT, of another desk than that of the database."""
    path = settings.home / FILE
    if not path.exists():
        with replacing(path) as file:
            file.write(desk.encode())
    found = path.read_text(encoding="ascii", errors="replace").strip()
    if found != desk:
        raise _of_another(f"the data folder {settings.home}", found, desk)


def _of_another(what: str, found: str, desk: str) -> UsageError:
    return UsageError(
        f"{what} is of another desk ({found}) than the database ({desk})",
        remedy="give each desk its own volumes: bring back the one that belongs here, or an empty one",
    )


log = structlog.get_logger(__name__)
SAY_SECONDS = 20.0
GONE = dt.timedelta(seconds=75)  # without a word; the process has ended, or its database was away
LAST_SECONDS = 2.0  # for the word that it ends; a row that stays is not seen any more
FORGOTTEN = dt.timedelta(days=1)
SET = "set"


@contextmanager
def present(
    settings: Settings, name: str, role: str = "", *, of_home: bool = False, loop: bool = True
) -> Iterator[None]:
    """Say that this process runs, until the block ends. of_home: it keeps an audit log in its data folder, which must
    be the desk's whose database this is, as Redis must. loop: a loop of it calls `life.beat`. Raises DatabaseUnfit and
    UsageError; one of them that is away is waited for, as by all that the process does."""
    life.begin(settings.home, name, role or name, _teller(settings), loop=loop)
    try:
        with _shown(settings, name, of_home=of_home):
            yield
    finally:
        life.end()


def _teller(settings: Settings) -> life.Teller | None:
    """A Redis on a socket of this user alone has no clients on other hosts."""
    address = settings.redis_url.get_secret_value() if settings.redis_url is not None else None
    if address is None or is_private(address):
        return None
    return life.Teller(lambda: client(address, life.BEAT_SECONDS, again=False))


@contextmanager
def _shown(settings: Settings, name: str, *, of_home: bool) -> Iterator[None]:
    try:
        require_current(settings.database)
        if of_home and settings.database_url is not None:
            require_home(settings, desk_of(settings.database))
        require_own(settings)
    except DatabaseUnfit:
        raise
    except DatabaseDown as error:
        log.warning("database.away", error=str(error.args[0]))
    except RedisDown as error:
        log.warning("redis.away", error=str(error.args[0]))
    with closing(Store(settings.database)) as store:
        row = Process(
            name=f"{name}@{socket.gethostname()}", started_at=utcnow(), seen_at=utcnow(),
            settings={each: _said(settings, each) for each in Settings.model_fields},
        )  # fmt: skip
        stop = threading.Event()
        speaking = threading.Thread(target=_speak, args=(store, row, stop, settings), name="presence", daemon=True)
        speaking.start()
        try:
            yield
        finally:
            stop.set()
            speaking.join(LAST_SECONDS)


def _said(settings: Settings, name: str) -> object:
    value = getattr(settings, name)
    if name in SECRETS:
        return SET if value is not None else None
    return shown(name, value, settings)


def _speak(store: Store, row: Process, stop: threading.Event, settings: Settings) -> None:
    own = settings.redis_url is None or is_private(settings.redis_url.get_secret_value())
    while not stop.is_set():
        _write(store, row)
        if not own and (place := _place(settings)) is not None:
            with suppress(RedisError):
                _other_place(settings, place)
        stop.wait(SAY_SECONDS)
    try:
        with store.session() as session:
            session.execute(delete(Process).where(col(Process.name) == row.name))
    except AWAY as error:
        log.warning("presence.lost", error=type(error).__name__)


def _write(store: Store, row: Process) -> None:
    row.seen_at = utcnow()
    try:
        with store.session() as session:
            session.merge(row)
            session.execute(delete(Process).where(col(Process.seen_at) < row.seen_at - FORGOTTEN))
    except AWAY as error:
        log.warning("presence.lost", error=type(error).__name__)


def here(store: Store) -> list[Process]:
    """Return the processes that run now, by name."""
    with store.read() as session:
        seen = select(Process).where(col(Process.seen_at) > utcnow() - GONE)
        return list(session.exec(seen.order_by(col(Process.name))))
