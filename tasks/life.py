"""A process's life: what each process of the desk writes of its own loop, and the word for it that others read.

A process says that it lives by what its own loop does: the loop calls `beat`, and a thread of the process writes the
time of that into a file of the home once a second. So a loop that is stuck in a process that runs can be told from a
process that does not run. In a fleet the same goes to Redis, for the other hosts. On its own host the file is enough:
it needs neither Redis nor the database, and no room on the disk, for it is written over in place.

The words, and their bounds:

- runs: the loop beat within SLOW_SECONDS, five beats.
- starting: the process runs, and its loop has not turned yet.
- slow: the loop, or all of the process, is late by more than that, and the process runs. It is shown and is no alarm.
- frozen: the process exists, and is stopped by a signal, or wrote nothing for IDLE_SECONDS while it used no CPU and
  wanted none; or the loop has stood still for STUCK_SECONDS in any case.
- dead: the process is gone, did not end in order, and the desk wants it.
- unreachable: a process of another host from which nothing came for UNREACHABLE_SECONDS: nobody here can look at it.
- not wanted: settings or options of `desk up` leave it out. It is never an alarm.

Ages are differences of the monotonic clock, which all processes of a host share and no setting of the clock moves; in
Redis an age is what is missing from a key's time to live, so no two clocks are compared. A process is its pid with its
start since the boot: a later process with the same pid is another one.

Standard library only, but for Redis and for systems without /proc: supervisord and `desk ping` load it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chordesk.models.home import make_folder

if TYPE_CHECKING:
    import redis

    from chordesk.models.settings import Settings

BEAT_SECONDS = 1.0
SLOW_SECONDS = 5 * BEAT_SECONDS
IDLE_SECONDS = 15.0
STUCK_SECONDS = 30.0
UNREACHABLE_SECONDS = 15.0
FORGOTTEN_SECONDS = 900.0  # after which one that did not end in order is not spoken of: its role may still be wanted
IDLE_CPU = 0.05  # seconds: below it a process did nothing
FOR_REDIS = "it waits for Redis"


class State(StrEnum):
    RUNS = "runs"
    STARTING = "starting"
    SLOW = "slow"
    FROZEN = "frozen"
    DEAD = "dead"
    UNREACHABLE = "unreachable"
    NOT_WANTED = "not wanted"


# What the desk lacks.
ALARMS = frozenset({State.FROZEN, State.DEAD, State.UNREACHABLE})
ALIVE = frozenset({State.RUNS, State.STARTING, State.SLOW})


@dataclass(frozen=True, slots=True)
class Life:
    """A process and the word for it. seconds: since its loop last beat, or since it was last seen to run; None where
    that is not known. why: the cause, or what its loop waits for. of: the process that looks after it, where it has no
    loop of ours. pid is 0 where it does not run."""

    name: str
    role: str
    host: str
    pid: int
    state: State
    seconds: float | None = None
    why: str = ""
    of: str = ""

    @property
    def alarming(self) -> bool:
        return self.state in ALARMS

    @property
    def called(self) -> str:
        """Its name among all processes that are shown here."""
        return self.name if self.host == socket.gethostname() else f"{self.name}@{self.host}"

    def __str__(self) -> str:
        about = [f"process {self.pid}"] if self.pid else []
        if self.of:
            about.append(f"of {self.of}")
        said = f"{self.state.value}{f' for {_span(self.seconds)}' if self._counts else ''}"
        return f"{said} ({', '.join([*about, self.why] if self.why else about)})" if about or self.why else said

    @property
    def _counts(self) -> bool:
        return self.seconds is not None and self.state not in (State.RUNS, State.NOT_WANTED)


def _span(seconds: float | None) -> str:
    from chordesk.models.text import span

    return span(seconds or 0.0)


# What can be seen of a process here.


class Seen(NamedTuple):
    """A process that exists. start: a text that another process with its pid does not have; cpu: seconds used by all of
    its threads; stopped: by a signal or a debugger; busy: a thread of it runs or waits for a processor."""

    start: str
    cpu: float
    stopped: bool
    busy: bool


_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def look(pid: int) -> Seen | None:
    """None for a process that is gone or has ended. Raises PermissionError for one that nobody here may look at."""
    if pid <= 0:
        return None
    if not sys.platform.startswith("linux"):
        return _look_by_psutil(pid)
    try:
        fields = _stat(f"/proc/{pid}/stat")
    except OSError:
        try:
            os.kill(pid, 0)  # /proc may hide processes of others
        except ProcessLookupError:
            return None
        raise PermissionError(f"process {pid} cannot be looked at") from None
    if fields[0] in "ZXx":
        return None
    stopped = fields[0] in "Tt"
    return Seen(fields[19], (int(fields[11]) + int(fields[12])) / _TICKS, stopped, not stopped and _busy(pid))


def _stat(path: str) -> list[str]:
    """Return the fields after the name, which may hold any letter."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _busy(pid: int) -> bool:
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                if _stat(f"/proc/{pid}/task/{task}/stat")[0] == "R":
                    return True
    return False


def _look_by_psutil(pid: int) -> Seen | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            status, times = process.status(), process.cpu_times()
            start = f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        raise PermissionError(f"process {pid} cannot be looked at") from None
    if status == psutil.STATUS_ZOMBIE:
        return None
    stopped = status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return Seen(start, times.user + times.system, stopped, status == psutil.STATUS_RUNNING)


def start_of(pid: int) -> str:
    """Return what tells this process from a later one of its pid; empty for one that is gone."""
    with suppress(PermissionError):
        if (seen := look(pid)) is not None:
            return seen.start
    return ""


def _place() -> str:
    """Where a pid means the same process: this boot of this kernel, and this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino:x}"
    except OSError:
        return socket.gethostname()


def _boot(place: str) -> str:
    return place.partition(":")[0]


# What a process writes.


@dataclass(frozen=True, slots=True)
class Part:
    """A process as the process that looks after it has it. seen: when it was last seen to run, on the monotonic clock.
    message: why it does not run, where its pid is 0. beats: it has a loop of ours, and writes a record of its own once
    that turns."""

    name: str
    role: str
    pid: int
    beats: bool = False
    start: str = ""
    seen: float = 0.0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """What a process wrote last. beat, at: times of its loop and of the writing on the monotonic clock of `place`; beat
    is None before the loop turned. waits: what the loop waits for, or what fails in it. own: the file's identity, which
    a copy of the home does not have. unwanted: names that `desk up` was told to leave out, with the reason."""

    name: str
    role: str
    host: str
    place: str
    pid: int
    start: str
    at: float
    beat: float | None
    cpu: float
    waits: str = ""
    own: str = ""
    parts: tuple[Part, ...] = ()
    unwanted: Mapping[str, str] | None = None

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.host, self.name, self.pid, self.start


def folder(home: Path) -> Path:
    return home / "run" / "life"


# A record is padded to a multiple: a shorter one hides all of a longer one, and of a full disk it needs the first block
# alone.
_BLOCK = 8192


class Beating:
    """The life of this process while it runs. tell: takes each record, for other hosts; a failure of it is ignored.
    threaded: a thread of this process writes; without one the loop itself does, with its beat. loop: it has a loop that
    beats; without one the thread's writing counts as the beat.

    Threads share it. Nothing here raises: a process whose life cannot be written works on.
    """

    def __init__(
        self, home: Path, name: str, role: str, tell: Teller | None = None, *, threaded: bool = True, loop: bool = True
    ) -> None:
        self._name, self._role, self._tell = name, role, tell
        self._loop = loop
        self._host, self._place, self._pid = socket.gethostname(), _place(), os.getpid()
        self._start = start_of(self._pid)
        self._path = folder(home) / f"{name}-{self._pid}.json"
        self._beat: float | None = None
        self._written = 0.0
        self._waits: dict[str, str] = {}
        self._parts: Callable[[], Iterable[Part]] = tuple
        self._known: tuple[Part, ...] = ()
        self._unwanted: dict[str, str] | None = None
        self._file: int | None = None
        self._length, self._own = _BLOCK, ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._threaded = threaded

    def begin(self) -> None:
        with suppress(OSError):
            make_folder(self._path.parent, 0o700)  # never at a place that the home has left
            _sweep(self._path.parent, self._name)
        self._write()
        if self._threaded:
            self._thread = threading.Thread(target=self._run, name="life", daemon=True)
            self._thread.start()

    def beat(self) -> None:
        """The loop of this process turned."""
        self._beat = now = time.monotonic()
        if not self._threaded and now - self._written >= BEAT_SECONDS / 2:
            self._written = now
            self._write()

    def waits(self, what: str, why: str | None) -> None:
        """Say why a part of the loop does not get on; None once it does."""
        if why is None:
            self._waits.pop(what, None)
        else:
            self._waits[what] = why

    def looks_after(self, parts: Callable[[], Iterable[Part]]) -> None:
        """parts: returns the processes that this one has started, and that have no loop of ours; it is asked with each
        writing, and must not wait."""
        self._parts = parts

    def leaves_out(self, unwanted: Mapping[str, str]) -> None:
        self._unwanted = dict(unwanted)

    @property
    def seconds(self) -> float | None:
        """Seconds since the loop turned; None before that."""
        return time.monotonic() - self._beat if self._beat is not None else None

    @property
    def why(self) -> str:
        return "; ".join(dict.fromkeys(self._waits.values()))

    def end(self) -> None:
        """This process ends in order: nobody is to miss it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(BEAT_SECONDS)
        self._close()
        if self._tell is not None:
            self._tell.end(self.record())

    def record(self) -> Record:
        times = os.times()
        return Record(
            name=self._name, role=self._role, host=self._host, place=self._place, pid=self._pid, start=self._start,
            at=time.monotonic(), beat=self._beat, cpu=times.user + times.system, waits=self.why, own=self._own,
            parts=self._known, unwanted=self._unwanted,
        )  # fmt: skip

    def _open(self) -> int:
        """The folder is not made again: a home that has moved is not to be there twice."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = os.fstat(file)
        self._own = f"{found.st_dev:x}-{found.st_ino:x}"
        return file

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink()
            with suppress(OSError):
                os.close(self._file)
            self._file = None

    def _run(self) -> None:
        while True:
            self._write()
            if self._stop.wait(BEAT_SECONDS):
                return

    def _write(self) -> None:
        # A list that changes while it is read is read again in a second.
        with suppress(Exception):
            self._known = tuple(_as_seen(self._known, self._parts()))
        if not self._loop:
            self._beat = time.monotonic()
        try:
            if self._file is None:
                self._file = self._open()
            record = self.record()
            data = json.dumps(asdict(record)).encode()
            self._length = max(self._length, -(-len(data) // _BLOCK) * _BLOCK)
            if os.pwrite(self._file, data.ljust(self._length), 0) < len(data):
                raise OSError("the record is cut")
        except OSError:
            self._close()  # what it wrote before would look as if it were frozen
            record = self.record()
        if self._tell is not None:
            with suppress(Exception):
                self._tell(record)


def _as_seen(before: Iterable[Part], parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts with their starts, and when each was last seen to run."""
    known = {(one.name, one.pid): one for one in before}
    for one in parts:
        last = known.get((one.name, one.pid))
        try:
            seen = look(one.pid)
        except PermissionError:
            seen = None
        start = last.start if last is not None else seen.start if seen is not None else ""
        runs = seen is not None and seen.start == start and not seen.stopped
        yield replace(one, start=start, seen=time.monotonic() if runs or last is None else last.seen)


def _sweep(where: Path, name: str = "") -> None:
    """Remove what processes of this name (all without one) have left that are gone. Those of another container, which
    may live, stay."""
    for path in where.glob("*.json"):
        record = _read(path)
        if record is None or (name and record.name != name):
            continue
        with suppress(OSError):
            if _is_of_another_boot(record) or (_is_here(record) and _process(record.pid, record.start) is None):
                path.unlink()


def forget(home: Path) -> None:
    """Remove what processes have left in a home that are gone: a new desk begins there."""
    _sweep(folder(home))


# The life of this process. There is one, so its loops need not be handed it.

_own: Beating | None = None


def begin(
    home: Path, name: str, role: str, tell: Teller | None = None, *, threaded: bool = True, loop: bool = True
) -> Beating:
    global _own
    _own = Beating(home, name, role, tell, threaded=threaded, loop=loop)
    _own.begin()
    return _own


def end() -> None:
    global _own
    if _own is not None:
        _own.end()
        _own = None


def beat() -> None:
    """The loop of this process turned. Nothing where no life was begun, as in a command."""
    if _own is not None:
        _own.beat()


def waits(what: str, why: str | None) -> None:
    if _own is not None:
        _own.waits(what, why)


def looks_after(parts: Callable[[], Iterable[Part]]) -> None:
    if _own is not None:
        _own.looks_after(parts)


def own() -> Life | None:
    """Return the life of this process as its own loop has it; None where none was begun."""
    return _judge_loop(_own.record(), time.monotonic(), redis_away=False) if _own is not None else None


# Redis, for processes of other hosts.

_NAMES, _KEY = "desk:lives", "desk:life:"
TELL_SECONDS = 2 * BEAT_SECONDS
_REST_SECONDS = 5.0  # after a Redis that did not answer


class Teller:
    """Tells Redis of this process every second writing. connect: makes the client."""

    def __init__(self, connect: Callable[[], redis.Redis]) -> None:
        self._connect = connect
        self._client: redis.Redis | None = None
        self._due = 0.0

    def __call__(self, record: Record) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _REST_SECONDS
        if self._client is None:
            self._client = self._connect()
        tell(self._client, record)
        self._due = now + TELL_SECONDS - BEAT_SECONDS / 2

    def end(self, record: Record) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.delete(_key(record))
                self._client.srem(_NAMES, _key(record))
                self._client.close()


def _key(record: Record) -> str:
    return f"{_KEY}{record.host}:{record.name}:{record.pid}"


def tell(client: redis.Redis, record: Record) -> None:
    late = time.monotonic() - record.beat if record.beat is not None else None
    said = {**asdict(replace(record, parts=())), "beat": late, "at": 0.0}
    with client.pipeline(transaction=False) as pipe:
        pipe.set(_key(record), json.dumps(said), px=int(FORGOTTEN_SECONDS * 1000))
        pipe.sadd(_NAMES, _key(record))
        pipe.execute()


def told(client: redis.Redis) -> list[Record]:
    """Return what processes of other hosts said last; their times are put on this process's clock. Raises
    redis.RedisError."""
    names: Any = client.smembers(_NAMES)
    keys = sorted(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    if not keys:
        return []
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.get(key)
            pipe.pttl(key)
        answers = pipe.execute()
    found, gone, now = [], [], time.monotonic()
    for key, text, left in zip(keys, answers[::2], answers[1::2], strict=True):
        record = _parsed(text) if text else None
        if record is None:
            gone.append(key)
            continue
        at = now - max(FORGOTTEN_SECONDS - left / 1000, 0.0)
        found.append(replace(record, at=at, beat=at - record.beat if record.beat is not None else None))
    if gone:
        client.srem(_NAMES, *gone)
    return found


# What others read.


def _parsed(text: bytes | str) -> Record | None:
    try:
        row = json.loads(text)
        parts = tuple(Part(**part) for part in row.pop("parts", ()))
        return Record(**row, parts=parts)
    except (ValueError, TypeError, AttributeError):
        return None  # of another version, or in the middle of a writing


def _read(path: Path) -> Record | None:
    for _ in range(3):
        try:
            with path.open("rb") as file:
                found, text = os.fstat(file.fileno()), file.read()
        except OSError:
            return None
        if (record := _parsed(text)) is not None:
            return record if record.own == f"{found.st_dev:x}-{found.st_ino:x}" else None
        time.sleep(0.01)
    return None


def written(home: Path) -> list[Record]:
    """Return what the processes of this home wrote last, those that are gone too."""
    found = (_read(path) for path in sorted(folder(home).glob("*.json")))
    return [record for record in found if record is not None]


def _is_of_another_boot(record: Record) -> bool:
    """Whether a file's times are of another clock: nothing is missed of before the machine was started, and another
    machine with this folder says in Redis how it is."""
    return _boot(record.place) != _boot(_place())


def _is_here(record: Record) -> bool:
    return record.place == _place()


def _process(pid: int, start: str) -> Seen | None:
    """Return the process that had this pid and start, None once it is gone. Raises PermissionError."""
    seen = look(pid)
    return seen if seen is not None and (not start or seen.start == start) else None


UP, SUPERVISOR, REDIS = "up", "supervisor", "redis"
_ORDER = {UP: 0, SUPERVISOR: 1, REDIS: 2}


def lives(home: Path, others: Iterable[Record] = (), *, redis_away: bool = False) -> list[Life]:
    """Return the life of each process of the desk that is known here. others: what Redis has of other hosts.
    redis_away: it does not answer now; then a loop that is late waits for it."""
    now = time.monotonic()
    records = {record.key: record for record in others if record.place != _place()}
    records |= {record.key: record for record in written(home) if not _is_of_another_boot(record)}
    judged = [(record, _judge(record, now, redis_away=redis_away)) for record in records.values()]
    judged = [(record, one) for record, one in judged if not _is_forgotten(one)]
    known = [(record, one) for record, one in judged if one.state is not State.DEAD]
    gone = [one for _, one in judged if one.state is State.DEAD]
    names = {one.name for _, one in known}
    up = next((record for record, _ in known if record.role == UP), None)
    found = [one for _, one in known]
    for record, of in known:
        parts = [part for part in record.parts if record is not up or part.name not in names]
        looked_at = [_judge_part(record, part, of, now) for part in parts]
        # A worker starts another app-server where it needs one; only the programs of `desk up` are missed.
        found += [one for one in looked_at if record is up or one.state is not State.DEAD]
    names |= {one.name for one in found}
    if up is not None:
        left_out = [(name, why) for name, why in (up.unwanted or {}).items() if name not in names]
        found += [Life(name, name, up.host, 0, State.NOT_WANTED, why=why) for name, why in left_out]
    else:
        ended = [one for one in gone if one.role == UP]  # what it had started has ended with it
        gone = ended or [one for one in gone if one.role != SUPERVISOR]
    latest = {one.name: one for one in sorted(gone, key=lambda one: -(one.seconds or 0.0)) if one.name not in names}
    found += latest.values()
    return sorted(found, key=lambda one: (_ORDER.get(one.role, len(_ORDER)), one.host, one.name, one.pid))


def _is_forgotten(one: Life) -> bool:
    return one.state in (State.DEAD, State.UNREACHABLE) and (one.seconds or 0.0) > FORGOTTEN_SECONDS


def of_desk(settings: Settings, seconds: float = BEAT_SECONDS) -> list[Life]:
    """Return the lives that can be known here: of this home, and in a fleet of other hosts. Waits for Redis no longer
    than so many seconds; without an answer this process too is one that waits for it."""
    from redis.exceptions import RedisError

    from chordesk.models.errors import RedisDown
    from chordesk.tasks.redis_clients import client, is_private, redis_url

    try:
        address = redis_url(settings)
        with client(address, seconds, again=False) as opened:
            opened.ping()
            others = [] if is_private(address) else told(opened)
        waits("redis", None)
        return lives(settings.home, others)
    except (RedisDown, RedisError):
        waits("redis", FOR_REDIS)
        return lives(settings.home, redis_away=True)


def _judge_part(record: Record, part: Part, of: Life, now: float) -> Life:
    called, state = "" if record.role == UP else of.name, State.STARTING if part.beats else State.RUNS
    base = Life(part.name, part.role, record.host, part.pid, state, of=called)
    if not _is_here(record):
        return replace(base, state=of.state if of.state is State.UNREACHABLE else State.RUNS, seconds=of.seconds)
    try:
        seen = _process(part.pid, part.start)
    except PermissionError:
        return base
    if seen is None:
        return replace(base, state=State.DEAD, seconds=now - part.seen, why=part.message)
    if seen.stopped:
        return replace(base, state=State.FROZEN, seconds=now - part.seen, why=_stopped(part.pid))
    return base


def _stopped(pid: int) -> str:
    return f"stopped by a signal; `kill -CONT {pid}` lets it go on"


def _judge(record: Record, now: float, *, redis_away: bool) -> Life:
    base = Life(record.name, record.role, record.host, record.pid, State.DEAD)
    try:
        seen = _process(record.pid, record.start) if _is_here(record) else None
        hidden = not _is_here(record)
    except PermissionError:
        seen, hidden = None, True
    if hidden:
        if (age := now - record.at) > UNREACHABLE_SECONDS:
            return replace(base, state=State.UNREACHABLE, seconds=age, why=f"nothing came from {record.host}")
        return _judge_loop(record, now, redis_away=redis_away)
    age, last = now - record.at, now - (record.beat if record.beat is not None else record.at)
    if seen is None:
        return replace(base, seconds=age)
    if seen.stopped:
        return replace(base, state=State.FROZEN, seconds=last, why=_stopped(record.pid))
    if age <= SLOW_SECONDS:
        return _judge_loop(record, now, redis_away=redis_away)
    idle = not seen.busy and seen.cpu - record.cpu < IDLE_CPU
    if age > STUCK_SECONDS or (idle and age > IDLE_SECONDS):
        why = "it uses no CPU" if idle else "it uses CPU and does not get to its loop"
        return replace(base, state=State.FROZEN, seconds=last, why=why)
    return replace(base, state=State.SLOW, seconds=last, why="it runs late")


def _judge_loop(record: Record, now: float, *, redis_away: bool) -> Life:
    """The word for a process that runs, by its loop."""
    base = Life(record.name, record.role, record.host, record.pid, State.RUNS, why=record.waits)
    if record.beat is None:
        return replace(base, state=State.STARTING, seconds=None)
    late = now - record.beat
    if late <= SLOW_SECONDS:
        return replace(base, seconds=late)
    if redis_away or FOR_REDIS in record.waits:
        return replace(base, seconds=late, why=record.waits or FOR_REDIS)
    if late <= STUCK_SECONDS:
        return replace(base, state=State.SLOW, seconds=late, why="its loop is late")
    return replace(base, state=State.FROZEN, seconds=late, why="its loop stands still while the process runs")
