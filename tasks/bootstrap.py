"""The composition root: the only place that wires the desk. Each part is made on first use, where it is used."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import redis
import redis.asyncio
from celery import Celery

from agents.codex.config import runtime_config
from agents.codex.runtime import CodexRuntime
from agents.runner import Runner
from models.blobs import blob_store
from models.errors import RedisDown
from models.settings import Settings
from models.store import Store
from tasks.admission import Admission
from tasks.asking import Asking
from tasks.draining import Drain
from tasks.events.publisher import Publisher
from tasks.events.recorder import Recorder
from tasks.leases import LeaseKeeper
from tasks.loop import LoopThread
from tasks.telemetry.commits import Commits
from tasks.telemetry.emit import Telemetry
from tasks.vault import ThreadVault
from tools.brokers.factory import build_broker
from tools.brokers.protocol import Broker, Streaming
from tools.market.factory import build_market
from tools.market.protocol import MarketData
from tools.orders.fence import Seat
from tools.registry import ToolContext
from tools.toolsets import warm

T = TypeVar("T")
START_SECONDS = 60.0
REDIS_SECONDS = 3.0


class Desk:
    """What a process of the desk holds. Parts are made when first asked for, so a prefork parent makes none of them
    before it forks, and a child that inherited this object makes its own."""

    def __init__(self, settings: Settings, name: str = "desk") -> None:
        self.settings = settings
        self.name = name
        self.drain = Drain(settings.drain_seconds)
        self.nudged = threading.Event()  # a look after the orders was asked for and has not begun
        self._lock = threading.RLock()
        self._parts: dict[str, Any] = {}
        self._pid = os.getpid()

    def _part(self, key: str, make: Callable[[], T]) -> T:
        with self._lock:
            if self._pid != os.getpid():
                self._parts, self._pid = {}, os.getpid()
            if key not in self._parts:
                self._parts[key] = make()
            part: T = self._parts[key]
            return part

    @property
    def owner(self) -> str:
        """Who holds a lease: unique per process and start, so that a restarted worker is another owner."""
        return self._part("owner", lambda: f"{self.name}@{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}")

    @property
    def store(self) -> Store:
        return self._part("store", self._make_store)

    @property
    def publisher(self) -> Publisher:
        """Tells readers of events sooner than the database does."""
        return self._part("publisher", self._make_publisher)

    @property
    def recorder(self) -> Recorder:
        """Writes down what this process's runtimes tell."""
        deltas = self.publisher if self.settings.event_deltas else None
        return self._part("recorder", lambda: Recorder(self.store, deltas))

    @property
    def telemetry(self) -> Telemetry:
        """What this process tells the outside of its work; off unless set."""
        return self._part("telemetry", lambda: Telemetry(self.settings, lambda: self.owner))

    @property
    def market(self) -> MarketData:
        return self._part("market", lambda: build_market(self.settings))

    @property
    def broker(self) -> Broker:
        return self._part("broker", lambda: build_broker(self.settings, self.market, self.store))

    @property
    def seat(self) -> Seat:
        """This process's place at the account's fence; taken with the first order, by the trade worker alone."""
        return self._part("seat", lambda: Seat(self.store, self.settings.account, self.owner))

    @property
    def leases(self) -> LeaseKeeper:
        return self._part("leases", self._make_leases)

    def keeper(self) -> LeaseKeeper | None:
        """Who holds this process's steps; None when it has not begun any."""
        return self._parts.get("leases") if self._pid == os.getpid() else None

    @property
    def loop(self) -> LoopThread:
        return self._part("loop", LoopThread)

    @property
    def runner(self) -> Runner:
        return self._part("runner", self._make_runner)

    @property
    def admission(self) -> Admission:
        return self._part("admission", self._make_admission)

    @property
    def runtime(self) -> CodexRuntime:
        return self._part("runtime", self._make_runtime)

    @property
    def vault(self) -> ThreadVault:
        """The copies of kept threads."""
        return self._part("vault", lambda: ThreadVault(self.store, blob_store(self.settings.blob_url, self.store)))

    @property
    def redis_client(self) -> redis.Redis:
        """For the short questions of task threads; the registry has a client of its own on the loop."""
        address = redis_url(self.settings)
        return self._part("redis", lambda: redis.Redis.from_url(address, socket_timeout=REDIS_SECONDS))

    def made(self, key: str) -> Any:
        """A part if it was made already, else None: who only looks starts nothing."""
        with self._lock:
            return self._parts.get(key) if self._pid == os.getpid() else None

    def tool_context(self, run_id: str | None = None) -> ToolContext:
        return ToolContext(
            market=self.market,
            clock=self.market.clock,
            store=self.store,
            settings=self.settings,
            account=self.settings.account,
            run_id=run_id,
        )

    def tell(self) -> None:
        """In a worker: begin to show metrics and to give each task a span, if that is set."""
        self.telemetry.begin(self._dropped)

    def _dropped(self) -> dict[str, int]:
        """How many events the queues of this process had to drop so far."""
        queues = {name: self.made(name) for name in ("recorder", "publisher", "commits")}
        return {name: queue.dropped if queue is not None else 0 for name, queue in queues.items()}

    def warm(self) -> None:
        """Load what the first turn would otherwise wait for: prices, indicators, the exchange's calendar."""
        warm()
        _ = self.market

    def close(self, grace_seconds: float = 5.0) -> None:
        """Stop what was started here; app-servers first, for they are processes."""
        with self._lock:
            parts = self._parts if self._pid == os.getpid() else {}
            self._parts = {}
        if "runtime" in parts:
            parts["loop"].submit(parts["runtime"].close(grace_seconds)).result(timeout=grace_seconds + 10)
        if "admission" in parts and "loop" in parts:
            parts["loop"].submit(parts["admission"].close()).result(timeout=grace_seconds)
        if isinstance(parts.get("broker"), Streaming):
            parts["broker"].close()
        # Each before what it tells of its last.
        last = ("recorder", "commits", "publisher", "telemetry", "store")
        for key in ("leases", "loop", "redis", "renewals", *last):
            if key in parts:
                parts[key].close()

    def _make_store(self) -> Store:
        store = Store(self.settings.database)
        if self.settings.redis_url is not None:
            store.on_commit.append(self.publisher.publish)
        if self.telemetry.wanted:
            store.on_commit.append(self._part("commits", lambda: Commits(self.telemetry, store)).told)
        return store

    def _make_publisher(self) -> Publisher:
        return Publisher(redis_url(self.settings), self.settings.event_stream_length)

    def _make_leases(self) -> LeaseKeeper:
        limits = self.settings
        store = self._part("renewals", self.store.apart)
        return LeaseKeeper(store, self.owner, limits.lease_seconds, limits.step_deadline_seconds)

    def _make_runner(self) -> Runner:
        return Runner(self.runtime, self.settings, self.tool_context, self.admission)

    def _make_admission(self) -> Admission:
        address = redis_url(self.settings)
        client = redis.asyncio.from_url(address, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)
        return Admission(client, self.settings)

    def _make_runtime(self) -> CodexRuntime:
        config = runtime_config(self.settings, self.name)
        registry = redis.asyncio.from_url(redis_url(self.settings))
        asker = Asking(self.store, self.settings)
        runtime = CodexRuntime(config, registry, observer=self.recorder, asker=asker, vault=self.vault)
        self.loop.submit(runtime.start()).result(START_SECONDS)
        return runtime


def redis_url(settings: Settings) -> str:
    """The redis-py URL of the desk's Redis. Raises RedisDown when none is set and none was started."""
    if settings.redis_url is None:
        raise RedisDown("no Redis is configured and none was started here")
    return settings.redis_url.get_secret_value()


def desk_of(app: Celery) -> Desk:
    """The desk that `create_app` gave its app."""
    desk: Desk = app.desk
    return desk
