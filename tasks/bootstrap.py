"""The composition root: the only place that wires the desk. Each part is made on first use, where it is used."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from chordesk.agents.role_models import (
    APP_SERVERS,
    DEFAULT_RUNTIME,
    LOCAL,
    RULES,
    RULES_MODEL,
    RUNTIMES,
    RoleModel,
    account_of,
    covers,
    digest_of_models,
    facts_of,
    local_url,
    models_in_use,
    models_of,
    require_keys,
    require_means,
    require_roles,
    runtimes_of,
)
from chordesk.agents.runtime import Runtime, ThreadRecords, ThreadRuntime
from chordesk.agents.wraps import Wrap
from chordesk.models import features
from chordesk.models.database.blobs import blob_store
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, LoginMissing, UsageError
from chordesk.models.market import plain_name
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run
from chordesk.models.tables.runs import Run
from chordesk.tasks.engine.evidence import Evidence
from chordesk.tasks.engine.leases import Drain, LeaseKeeper, LoopThread
from chordesk.tasks.engine.owners import owner_of
from chordesk.tasks.engine.shortage_watch import ShortageWatch
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.telemetry.process_watch import ProcessWatch, has_telemetry
from chordesk.tools.brokers.protocol import Broker, MarketPriced, Streaming, build_broker
from chordesk.tools.market.factory import MarketKey, build_market, configured_market, market_at
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.accounts import FencingLease, books_market, last_mark_day
from chordesk.tools.questions.stored_questions import known_until
from chordesk.tools.registry import Disguise, ToolContext
from chordesk.tools.scoring.verdict_calibration import weights

if TYPE_CHECKING:
    import redis
    import redis.asyncio

    from chordesk.agents.codex.launch import RuntimeConfig
    from chordesk.agents.codex.rollouts import ThreadVault
    from chordesk.agents.gateway.facts import ServerFacts
    from chordesk.agents.runner import Runner
    from chordesk.tasks.engine.limits import ModelAdmissions
    from chordesk.tasks.events.deltas import DeltaPublisher
    from chordesk.tasks.events.recorder import Recorder
    from chordesk.tasks.telemetry.emit import Telemetry

K = TypeVar("K")
T = TypeVar("T")
log = structlog.get_logger(__name__)
START_SECONDS = 60.0
LIBRARY_SECONDS = 300.0  # it takes five of a processor of its own, and all workers of a host load it at once
# The parts of a desk that are runtimes, by name; features have others.
RUNTIME_PARTS = {"codex": "runtime", LOCAL: "local_runtime", "rules": "rules"} | {
    name: f"runtime {name}" for name in sorted(RUNTIMES.keys() - APP_SERVERS)
}
# What a desk has of its own that is beside another one, and only has other models.
OF_MODELS = frozenset({"runner", "admission", "model_server", *RUNTIME_PARTS.values()})
REDIS_SECONDS = 3.0
# A market view is small, but what tools compute on it is kept with it.
MARKETS_KEPT = 16
RUNS_KEPT = 1024
SETTINGS_SECONDS = 3.0


class Recent(Generic[K, T]):
    """Answers to a question, by its key, each forgotten after so many seconds."""

    def __init__(self, ask: Callable[[K], T], seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._kept: dict[K, tuple[float, T]] = {}

    def __call__(self, key: K) -> T:
        now, found = time.monotonic(), self._kept.get(key)
        if found is None or found[0] < now:
            found = (now + self._seconds, self._ask(key))
            # A run with its settings is tens of kilobytes: a worker that kept those of ended ones would grow with each.
            fresh = {one: kept for one, kept in self._kept.items() if kept[0] >= now}
            self._kept = {**fresh, key: found}
        return found[1]


class part(Generic[T]):
    """Property of a desk that is made once in each process, by the method, on first use."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __get__(self, desk: Desk, _: type[Desk]) -> T:
        name = self._make.__name__
        holder = desk if desk._main is None or name in OF_MODELS else desk._main
        return holder._part(name, lambda: self._make(holder))


class Desk:
    """The parts of a desk that one process uses. Each is made on first use.

    records: what its runtime does is stored as events; not for a check, which belongs to no run. main: the desk of this
    process, beside which this one only has other models; all else is the main desk's. plays: its turns are answered by
    rules or cassettes alone, and a step is seen by others when it has ended.
    """

    def __init__(
        self,
        settings: Settings,
        name: str = "desk",
        *,
        records: bool = True,
        main: Desk | None = None,
        plays: bool = False,
    ) -> None:
        require_roles(settings)
        self.records = records
        self._plays = plays
        self.settings = settings
        self.name = name
        self._main = main
        self._beside: dict[str, Desk] = {}
        self._parts: dict[str, Any] = {}
        self._lock = threading.RLock()
        self.drain: Drain = main.drain if main is not None else Drain(settings.drain_seconds)
        self.watch: ProcessWatch = (
            main.watch
            if main is not None
            else ProcessWatch(name, settings.metrics_port, lambda: self.telemetry, self._dropped)
        )
        self.order_pass_due = threading.Event()  # an order pass was requested and has not begun
        if main is not None:
            return
        self.watch.health.stops_by(lambda: self.drain.requested)
        self.watch.health.live_by(lambda: loop.why_stuck() if (loop := self.made("loop")) is not None else None)

    def _part(self, key: str, make: Callable[[], T]) -> T:
        with self._lock:
            if key not in self._parts:
                self._parts[key] = make()
            part: T = self._parts[key]
            return part

    @part
    def owner(self) -> str:
        return owner_of(self.name)

    @part
    def store(self) -> Store:
        store = Store(self.settings.database)
        if has_telemetry(self.settings):
            from chordesk.tasks.telemetry.commits import Commits

            store.on_commit.append(self._part("commits", lambda: Commits(self.telemetry, store)).committed)
        return store

    @part
    def deltas(self) -> DeltaPublisher:
        from chordesk.tasks.events.deltas import DeltaPublisher

        return DeltaPublisher(redis_url(self.settings))

    @part
    def recorder(self) -> Recorder:
        from chordesk.tasks.events.recorder import Recorder

        return Recorder(self.store, self.deltas if self.settings.event_deltas else None)

    @part
    def telemetry(self) -> Telemetry:
        from chordesk.tasks.telemetry.emit import Telemetry

        return Telemetry(self.settings, lambda: self.owner)

    @property
    def market(self) -> MarketData:
        return self._market_at(configured_market(self.settings))

    def market_of(self, run_id: str, instead: MarketData | None = None) -> MarketData:
        """The run's market and day; `instead` where this process cannot have it, or UsageError. The database is asked
        once a run."""
        try:
            return self._market_at(self._run_markets(run_id))
        except DeskError as error:
            if instead is not None:
                log.warning("market.away", run=run_id, error=str(error))
                return instead
            reason = f"this worker cannot have the market of run {run_id}: {error.args[0]}"
            raise UsageError(reason, remedy=error.remedy) from None

    def market_for(self, day: dt.date) -> MarketData:
        return self._market_at(configured_market(self.settings)._replace(day=day))

    def market_on(self, run_id: str, day: dt.date) -> MarketData:
        return self._market_at(self._run_markets(run_id)._replace(day=day))

    def settings_of(self, run_id: str) -> Settings:
        """This process's settings with those that the run keeps. A person may adopt the run: the database is asked
        again later."""
        return self._run_settings(run_id)[0]

    @part
    def _run_settings(self) -> Callable[[str], tuple[Settings, Run]]:
        def read(run_id: str) -> tuple[Settings, Run]:
            with self.store.read() as session:
                run = session.get_one(Run, run_id)
            return in_run(self.settings, run.settings, run.account), run

        return Recent(read, SETTINGS_SECONDS)

    def serving(self, run_id: str) -> Desk:
        """This desk, or one beside it with the run's models. Raises DeskError with the models that this process cannot
        have."""
        return self._serving(run_id)

    @part
    def _serving(self) -> Callable[[str], Desk]:
        return Recent(self._serve, SETTINGS_SECONDS)

    def _serve(self, run_id: str) -> Desk:
        theirs, run = self._run_settings(run_id)
        kept = run.settings
        if kept is None and (run.provider, run.model) != (self.settings.provider, self.settings.model_label):
            raise UsageError(run.model)
        require_means(self.settings, theirs, kept or {}, run.model, os.environ)
        if covers(self.settings, theirs):
            return self
        try:
            require_login(theirs)
        except LoginMissing as error:
            raise UsageError(f"{run.model}: {error.args[0]}") from None
        key = digest_of_models(theirs)
        with self._lock:
            if key not in self._beside:
                log.info("models.beside", run=run_id, model=run.model)
                self._beside[key] = Desk(
                    theirs, f"{self.name}-{key}", records=self.records, main=self, plays=self._plays
                )
            return self._beside[key]

    def backtest_market(self, account: str) -> MarketData | None:
        """The market on the last session marked; None before one, and where this process cannot have it."""
        with self.store.read() as session:
            key, day = books_market(session, account), last_mark_day(session, account)
        try:
            return None if key is None or day is None else self._market_at(key._replace(day=day))
        except DeskError as error:
            log.warning("market.away", account=account, error=str(error))
            return None

    def account_market(self) -> MarketData:
        """The market of the account's last trade, on the day of its books, or on this process's day if that is later.
        Before any trade, and where that market cannot be had, this process's own."""
        own = configured_market(self.settings)
        try:
            with self.store.read() as session:
                key = books_market(session, self.settings.account) or own
            if plain_name(key.name) == own.name and key.day is not None and own.day is not None:
                key = key._replace(day=max(key.day, own.day))
            return self._market_at(key)
        except DeskError as error:
            log.warning("market.away", account=self.settings.account, error=str(error))
            return self.market

    def order_market(self, run_id: str) -> MarketData:
        """The market of a run that made an order, or that of the account where it is later."""
        account = self.account_market()
        market = self.market_of(run_id, instead=account)
        return account if market.clock.now() <= account.clock.now() else market

    @part
    def _run_markets(self) -> Callable[[str], MarketKey]:
        def read(run_id: str) -> MarketKey:
            with self.store.read() as session:
                run = session.get_one(Run, run_id)
            return market_at(run.market, run.market_now, run.settings)

        return lru_cache(RUNS_KEPT)(read)

    def role_weights(self, run_id: str) -> Mapping[str, float]:
        """What a role's thesis weighs in a run, by its record up to the run's day; empty where DESK_MEMORY is off, for
        then nothing of earlier runs counts."""
        return self._role_weights(run_id) if self.settings_of(run_id).memory == "on" else {}

    @part
    def _role_weights(self) -> Callable[[str], Mapping[str, float]]:
        def read(run_id: str) -> Mapping[str, float]:
            with self.store.read() as session:
                account = session.get_one(Run, run_id).account
                return weights(session, account, known_until(self.market_of(run_id).clock))

        return lru_cache(RUNS_KEPT)(read)

    @part
    def _markets(self) -> Callable[[MarketKey], MarketData]:
        return lru_cache(MARKETS_KEPT)(partial(build_market, self.settings))

    def _market_at(self, key: MarketKey) -> MarketData:
        with self._lock:
            return self._markets(key)

    @part
    def broker(self) -> Broker:
        return build_broker(self.settings, self.market, self.store)

    def broker_on(self, market: MarketData) -> Broker:
        """Return the account's broker; one that fills at a market's prices does so at those of `market`."""
        return self.broker.on(market) if isinstance(self.broker, MarketPriced) else self.broker

    @part
    def submission_lease(self) -> FencingLease:
        """This process's place at the account's fence; taken with the first order, by the trade worker alone."""
        return FencingLease(self.store, self.settings.account, self.owner)

    @part
    def shortages(self) -> ShortageWatch:
        return ShortageWatch(self.settings, lambda: self.store, lambda: self.drain.requested)

    @part
    def leases(self) -> LeaseKeeper:
        if self._plays:
            return LeaseKeeper(self.store, self.owner, 0.0, self.settings.step_deadline_seconds)
        limits, store = self.settings, self._part("renewals", self.store.apart)
        return LeaseKeeper(store, self.owner, limits.lease_seconds, limits.step_deadline_seconds)

    def lease_keeper(self) -> LeaseKeeper | None:
        keeper: LeaseKeeper | None = self.made("leases")
        return keeper

    @part
    def loop(self) -> LoopThread:
        return LoopThread()

    @part
    def runner(self) -> Runner:
        from chordesk.agents.runner import Runner

        if self._plays or self.settings.cassettes == "replay":  # no model that a turn would have to wait for
            return Runner(self.runtimes(), self.settings, self.tool_context, size_of=self.context_of)
        given = self.tool_context, self.admission.of, self.context_of, Evidence(self.store).witness
        return Runner(self.runtimes(), self.settings, *given, self.recorder if self.records else None)

    def runtimes(self) -> Mapping[str, Runtime]:
        """Return the runtimes that some role uses, by name; those that no role uses are not started."""
        if self._plays and self.settings.cassettes != "replay":
            return {RULES.runtime: self._wrapped(RULES.runtime)}
        used = runtimes_of(self.settings) | ({"rules"} if self.settings.provider == RULES_MODEL else set())
        return {name: self._wrapped(name) for name in RUNTIME_PARTS if name in used}

    def _wrapped(self, name: str) -> Runtime:
        make = partial(self._runtime, name)
        for one in self.wraps:
            make = partial(one.runtime, self, name, make)
        return make()

    @part
    def wraps(self) -> list[Wrap]:
        of_features = list(features.parts("wraps", kind=type))
        return [features.call(feature, wrap, self) for feature, found in of_features for wrap in found]

    def disguise_of(self, run_id: str) -> Disguise | None:
        """Return what hides the run from its models; None where nothing does."""
        return next((found for one in self.wraps if (found := one.disguise(run_id)) is not None), None)

    def _runtime(self, name: str) -> Runtime:
        if name == DEFAULT_RUNTIME and self._main is not None and self.settings.provider == RULES_MODEL:
            return self.rules  # a run of the rulebook, on a desk that does not serve it
        if name not in RUNTIMES or name in APP_SERVERS:
            runtime: Runtime = getattr(self, RUNTIME_PARTS[name])
            return runtime
        return self._part(RUNTIME_PARTS[name], lambda: self._of_feature(name))

    def _of_feature(self, name: str) -> Runtime:
        build = features.part("runtimes", name, RUNTIMES[name].build, kind=Callable)
        runtime: Runtime = build(self.settings, self.name, self.recorder if self.records else None)
        self.loop.submit(runtime.start()).result(LIBRARY_SECONDS)
        return runtime

    def made_runtimes(self) -> list[Runtime]:
        desks = (self, *self._beside.values())
        return [one for desk in desks for name in RUNTIME_PARTS.values() if (one := desk.made(name)) is not None]

    @part
    def admission(self) -> ModelAdmissions:
        import redis.asyncio

        from chordesk.tasks.engine.limits import ModelAdmissions

        limits = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
        return ModelAdmissions(redis.asyncio.from_url(redis_url(self.settings), **limits), self.settings)

    @part
    def runtime(self) -> ThreadRuntime:
        from chordesk.agents.codex.launch import runtime_config

        return self._app_servers(runtime_config(self.settings, self.name))

    @part
    def local_runtime(self) -> ThreadRuntime:
        from chordesk.agents.codex.launch import runtime_config

        config = runtime_config(self.settings, f"{self.name}-{LOCAL}", LOCAL)
        return self._app_servers(replace(config, facts=self.model_server))

    @part
    def model_server(self) -> Callable[[str], Awaitable[ServerFacts]]:
        from chordesk.agents.codex.launch import runtime_config
        from chordesk.agents.gateway.probe import KnownServer  # its library is for desks with such a server alone

        config = runtime_config(self.settings, self.name, LOCAL)
        assert config.provider_url is not None, "models_in_use refuses a local model without a server"
        return KnownServer(self.settings.home, config.provider_url, config.provider_key, config.ca_file)

    async def context_of(self, model: RoleModel) -> int | None:
        if self.settings.cassettes == "replay":
            return facts.context if (facts := facts_of(self.settings, model)) is not None else None
        return (await self.model_server(model.model)).context if model.runtime == LOCAL else None

    def runtime_named(self, name: str) -> Runtime:
        """Return the runtime of a graph's model."""
        if self.settings.mask:
            raise UsageError("a graph asks its models by itself", remedy="leave DESK_MASK out, or the graph")
        return self.runtime_of(name) if name in APP_SERVERS else self._runtime(name)

    def runtime_of(self, runtime: str) -> ThreadRuntime:
        return self.local_runtime if runtime == LOCAL else self.runtime

    def _app_servers(self, config: RuntimeConfig) -> ThreadRuntime:
        import redis.asyncio

        from chordesk.agents.codex.runtime import CodexRuntime
        from chordesk.tasks.approval_requests import ApprovalAsker

        url = self.settings.redis_url
        registry = redis.asyncio.from_url(url.get_secret_value()) if url is not None else None
        asker = ApprovalAsker(self.store)
        observer = self.recorder if self.records else None
        account = account_of(self.settings, RoleModel(DEFAULT_RUNTIME, self.settings.model))
        seen = partial(self.admission.note, account) if registry is not None else None
        runtime = CodexRuntime(config, registry, observer=observer, asker=asker, vault=self.vault, on_quota=seen)
        self.loop.submit(runtime.start()).result(START_SECONDS)
        return runtime

    @part
    def rules(self) -> Runtime:
        from chordesk.agents.rulebook.server import RulesRuntime

        return RulesRuntime()

    @part
    def vault(self) -> ThreadVault:
        from chordesk.agents.codex.rollouts import ThreadVault

        return ThreadVault(self.store, blob_store(self.settings.blob_url, self.store))

    @asynccontextmanager
    async def thread_records(self) -> AsyncIterator[ThreadRecords]:
        import redis.asyncio

        from chordesk.agents.codex.threads import ThreadRegistry

        client = redis.asyncio.from_url(redis_url(self.settings))
        try:
            yield ThreadRegistry(client, self.settings.lease_seconds, self.vault)
        finally:
            await client.aclose()

    @part
    def redis_client(self) -> redis.Redis:
        """For task threads. A failed command is tried once more, without redis-py's pauses: the sweep waits for it."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        limits = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
        return redis.Redis.from_url(redis_url(self.settings), retry=Retry(NoBackoff(), 1), **limits)

    def made(self, key: str) -> Any:
        """A part if it was made already: reading its state starts nothing, and waits for nothing."""
        return self._parts.get(key)

    def tool_context(self, run_id: str | None = None) -> ToolContext:
        """Settings and market of the run; without one, those of this process."""
        market = self.market if run_id is None else self.market_of(run_id)
        settings = self.settings if run_id is None else self.settings_of(run_id)
        return ToolContext(
            market=market,
            clock=market.clock,
            store=self.store,
            settings=settings,
            account=settings.account,
            run_id=run_id,
            disguise=None if run_id is None else self.disguise_of(run_id),
        )

    def _dropped(self) -> dict[str, int]:
        """Return how many events each queue of this process had to drop so far."""
        queues = {name: self.made(name) for name in ("recorder", "deltas", "commits")}
        return {name: queue.dropped if queue is not None else 0 for name, queue in queues.items()}

    def warm(self, turns: bool = False) -> None:
        """Load what the first turn would wait for: prices, indicators, the calendar, and in a research worker runtimes'
        libraries."""
        from chordesk.tools.toolsets import warm

        warm(self.settings.exchange)
        _ = self.market
        for name in runtimes_of(self.settings) if turns and self.settings.cassettes != "replay" else ():
            if name in RUNTIMES and RUNTIMES[name].library:
                features.part("runtimes", name, RUNTIMES[name].library, kind=Callable)()

    def close(self, grace_seconds: float = 5.0) -> None:
        """Stop what was started here; app-servers first, for they are processes."""
        with self._lock:
            parts, self._parts = self._parts, {}
            every = [parts, *(desk._parts for desk in self._beside.values())]
        runtimes = [one[name].close(grace_seconds) for one in every for name in RUNTIME_PARTS.values() if name in one]
        if runtimes:
            parts["loop"].submit(_all(runtimes)).result(timeout=grace_seconds + 10)
        for one in every:
            if "admission" in one and "loop" in parts:
                parts["loop"].submit(one["admission"].close()).result(timeout=grace_seconds)
        if isinstance(parts.get("broker"), Streaming):
            parts["broker"].close()
        # Each before the part that it writes its last to.
        last = ("recorder", "commits", "deltas", "telemetry", "store")
        for key in ("leases", "loop", "redis_client", "renewals", *last):
            if key in parts:
                parts[key].close()
        self.watch.close()


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*works)


def require_runtimes(settings: Settings) -> None:
    """Raises SettingError, BinaryMissing, LoginMissing, CodexError."""
    if settings.cassettes == "replay":
        return
    from chordesk.agents.codex.launch import find_login, prepare, runtime_config

    require_keys(settings, os.environ)
    for runtime in sorted(APP_SERVERS & runtimes_of(settings)):
        config = runtime_config(settings, "check", runtime)
        find_login(config)
        asyncio.run(prepare(config))


def require_provider(settings: Settings) -> None:
    """No model is asked. Raises ServerAway, KeyRefused, WrongApi, ModelMissing."""
    if settings.cassettes == "replay":
        return
    from chordesk.agents.gateway.probe import look_at_endpoint, look_at_server

    used, ca_file = models_in_use(settings), settings.codex_ca_file
    key = settings.provider_key.get_secret_value() if settings.provider_key else None
    if any(one.provider(settings) == "endpoint" for one in used):
        asyncio.run(look_at_endpoint(str(settings.provider_url), key, ca_file))
    for model in models_of(used, LOCAL):
        try:
            own = key if settings.provider == LOCAL else None
            asyncio.run(look_at_server(str(local_url(settings)), own, model, ca_file))
        except DeskError as error:
            error.remedy = settings_of_server(settings, error.remedy)
            raise


def settings_of_server(settings: Settings, text: str) -> str:
    """Return a remedy that names the settings of the local server, which are others beside another provider."""
    if settings.provider == LOCAL:
        return text
    return text.replace("DESK_PROVIDER_URL", "DESK_LOCAL_URL").replace("DESK_MODEL", "DESK_ROLE_MODELS")


def require_login(settings: Settings) -> None:
    if settings.cassettes == "replay":
        return
    from chordesk.agents.codex.launch import find_login, runtime_config

    if any(one.provider(settings) == "codex" for one in models_in_use(settings)):
        find_login(runtime_config(settings, "check"))


def run_codex(settings: Settings, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the Codex binary on the host's login; it says itself what goes wrong. quiet: its output is kept. Raises
    BinaryMissing."""
    from chordesk.agents.codex.launch import login_home

    home = login_home()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = 'cli_auth_credentials_store="file"'  # not a keyring, which app-servers would not look into
    return subprocess.run(
        [codex_binary(settings), "-c", store, *arguments],
        env={**os.environ, "CODEX_HOME": str(home)}, check=False, capture_output=quiet, text=True,
    )  # fmt: skip


def codex_binary(settings: Settings) -> str:
    from chordesk.agents.codex.launch import find_binary

    return find_binary(settings.codex_binary)
