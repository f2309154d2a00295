"""The Codex runtime of one worker process: two pools of app-servers, and the conversations in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import redis.asyncio
import structlog

from chordesk.agents.codex.event_translation import ConversationListener
from chordesk.agents.codex.launch import RuntimeConfig, find_binary, prepare
from chordesk.agents.codex.protocol import ApprovalRouter
from chordesk.agents.codex.rollouts import RolloutFiles, ThreadVault, made_calls, read
from chordesk.agents.codex.servers import AppServer, AppServerPool, Home, Kind, OnQuota, claim_home
from chordesk.agents.codex.threads import (
    Lease,
    OpenedThread,
    ThreadPlace,
    ThreadRegistry,
    fork_kept,
    interrupt,
    open_kept,
    resume,
    start,
    start_turn,
    unsubscribe,
    wanted_record,
)
from chordesk.agents.codex.turns import (
    MOST_TOOL_CALLS,
    TurnWatch,
    failure_of_error,
    failure_of_turn,
    is_policy,
    refusal_in,
)
from chordesk.agents.providers.liveness import Liveness, Progress, failure, interrupted, with_spent
from chordesk.agents.providers.provider_limits import is_of_plan
from chordesk.agents.runtime import (
    ActiveRuntime,
    Asker,
    ConversationSpec,
    Observer,
    ProcessStatus,
    ThreadRecord,
    TurnResult,
    TurnStatus,
    has_history,
)
from chordesk.models.answers import Failure, Usage
from chordesk.models.errors import CodexError, ProcessDied, RedisDown, RpcError, RpcTimeout, ServiceError, UsageError
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import KeptThread

if TYPE_CHECKING:
    from chordesk.agents.gateway.service import Gateway


log = structlog.get_logger(__name__)

STARTED_SECONDS = 2.0  # wait for turn/started before an interrupt: an earlier one often fails
INTERRUPT_SECONDS = 2.0  # limit of the interrupt request; it is answered in about 10 ms
UNLOADED = "thread not found"
LOOK_SECONDS = 5.0  # between two looks at a turn that goes on
STOOD_STILL_SECONDS = 2.0
ENDED_SECONDS = 4.0  # from the interrupt to the end of its turn; then the process is killed


@dataclass(frozen=True, slots=True)
class Around:
    """What all conversations of a runtime share. observer records their events; asker passes a model's requests on to
    a person, and without one all are declined; gateway: to the provider, where there is one."""

    config: RuntimeConfig
    observer: Observer | None = None
    asker: Asker | None = None
    gateway: Gateway | None = None


class CodexConversation:
    """A thread that runs turns. Made by CodexRuntime.conversation; not usable after its block ends."""

    def __init__(
        self,
        server: AppServer,
        spec: ConversationSpec,
        opened: OpenedThread,
        deadline: float,
        around: Around,
        recorder: Recorder | None = None,
    ) -> None:
        self.thread_id = opened.thread_id
        self.reason = opened.reason
        self._path = opened.path
        self.turns = 0
        self.last_turn_id: str | None = None
        self.running_turn_id: str | None = None
        self.last_failure: Failure | None = None
        self._server, self._spec, self._deadline, self._recorder = server, spec, deadline, recorder
        config, self._gateway = around.config, around.gateway
        self.listener = ConversationListener(around.observer, spec, opened, config.worker)
        self._router = ApprovalRouter(spec.scope, spec.approvals, around.asker, self.listener.declined)
        self._limits = spec.limits or config.limits
        self._options = {"effort": spec.effort, "summary": spec.summary or config.summary}
        self._one_turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._stop: asyncio.Future[None] = self._loop.create_future()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        """Run one turn and return its end; a failure is a result, not an exception.

        metadata goes with every model call of the turn. on_started gets the turn's id; on_limited is called when the
        provider limits its rate, with the seconds it named. The turn ends at the conversation's deadline, at the turn's
        own limit, or when its provider is silent for too long.
        """
        async with self._one_turn:
            watch, result = None, None
            liveness = Liveness(self._limits)
            liveness.tools_first = self._spec.tools_first and not self.turns
            liveness.bounded = self._spec.bounded
            try:
                if self._stop.done():
                    return self._result("", None, "interrupted", interrupted())
                tools = self._spec.tools
                watch = self._server.watch(self.thread_id, tools, self._router, self.listener.notified, liveness)
                watch.on_limited, watch.until = on_limited, self._limit()
                if not self._spec.approvals:  # a call that a person is asked about is not rogue
                    watch.on_rogue = self._spec.on_rogue
                if self._gateway is not None:
                    self._gateway.watch(self.thread_id, liveness)
                turn_id = await self._start_resumed(watch, text, output_schema, metadata)
                self.turns += 1
                self.running_turn_id = turn_id
                result = await self._run(watch, turn_id, on_started)
            except CodexError as error:
                turn_id = (watch and watch.turn_id) or ""
                result = self._result(turn_id, watch, "failed", failure_of_error(error))
            finally:
                self.running_turn_id = None
                if watch is not None:
                    self._server.unwatch(self.thread_id)
                if self._gateway is not None:
                    self._gateway.unwatch(self.thread_id)
                status, why = (result.status, result.failure) if result else ("interrupted", None)
                self.listener.turn_ended(status, why)
            if watch is not None:
                await self._read_calls(watch, result.turn_id)
                result = replace(result, rogue=watch.rogue, failure=await self._with_reset(result.failure))
            self.last_failure = result.failure
            if result.status == "completed":
                self.last_turn_id = result.turn_id
            if self._recorder is not None:
                await self._recorder.after_turn(result)
            return result

    async def _with_reset(self, why: Failure | None) -> Failure | None:
        """Of a plan's limit with the time by the account's windows: the app-server's text is of whole minutes."""
        if why is None or not is_of_plan(why):
            return why
        if (ends := await self._server.plan_resets_at()) is None:
            return why
        seconds = max((ends - utcnow()).total_seconds(), 0.0)
        told = why.reset_seconds
        return (
            why if told is not None and abs(told - seconds) > 90 else why.model_copy(update={"reset_seconds": seconds})
        )

    async def _read_calls(self, watch: TurnWatch, turn_id: str) -> None:
        """A thread that is resumed passes on no items of the provider."""
        if self._path is None or not turn_id:
            return
        try:
            rollout = await asyncio.to_thread(read, self._server.home, self._path)
        except OSError as error:
            log.warning("rollout.unread", thread=self.thread_id, error=str(error))
            return
        for item, at in made_calls(rollout or b"", turn_id):
            watch.made(item, at)

    def interrupt(self) -> None:
        if not self._stop.done():
            self._stop.set_result(None)

    async def _start_resumed(
        self, watch: TurnWatch, text: str, schema: dict[str, Any], metadata: Mapping[str, str]
    ) -> str:
        """A thread that the end of its last conversation still unloaded is resumed again; no turn was started then."""
        try:
            return await self._start(watch, text, schema, metadata)
        except RpcError as error:
            if self.reason != "resumed" or UNLOADED not in str(error):
                raise
            await resume(self._server, self._spec, self.thread_id)
            return await self._start(watch, text, schema, metadata)

    async def _start(self, watch: TurnWatch, text: str, schema: dict[str, Any], metadata: Mapping[str, str]) -> str:
        request = start_turn(self._server, self.thread_id, text, schema, metadata, self._options)
        starting = asyncio.ensure_future(request)
        try:
            await asyncio.wait((starting, self._stop), return_when=asyncio.FIRST_COMPLETED)
            return await (asyncio.shield(starting) if starting.done() else self._overdue_start(starting))
        except asyncio.CancelledError:
            # The request was sent: the turn's id is needed to end it.
            await _shielded(self._end_unwanted(watch, starting))
            raise

    async def _overdue_start(self, starting: asyncio.Future[str]) -> str:
        """The answer to a start request that an interrupt overtook; a process that does not answer in time is
        killed."""
        await asyncio.wait((starting,), timeout=ENDED_SECONDS)
        if not starting.done():
            log.error("turn.start_unanswered", killed=self._server.pid)
            await self._server.client.kill()
        return await asyncio.shield(starting)

    async def _end_unwanted(self, watch: TurnWatch, starting: asyncio.Future[str]) -> None:
        try:
            turn_id = await starting
        except CodexError:
            return  # it never started, or its process is gone
        await self._end(watch, turn_id)

    async def _run(self, watch: TurnWatch, turn_id: str, on_started: Callable[[str], None] | None) -> TurnResult:
        try:
            if on_started is not None:
                on_started(turn_id)
            cause = await self._wait_for_end(watch)
        except CodexError:
            raise  # the process is gone, and the turn with it
        except BaseException:
            # The caller gave up: the turn must not go on and call tools in vain.
            await _shielded(self._end(watch, turn_id))
            raise
        if cause is None:
            return self._ended(watch, turn_id)
        ended = await self._end(watch, turn_id)
        if ended and watch.done.result()["status"] == "completed":
            return self._ended(watch, turn_id)  # it was over before the interrupt came
        status: TurnStatus = "interrupted" if cause.kind == "interrupted" else "failed"
        return self._result(turn_id, watch, status, cause)

    async def _wait_for_end(self, watch: TurnWatch) -> Failure | None:
        """The failure for which the turn has to be ended, or None. Raises ProcessDied."""
        limit, liveness, began = watch.until, watch.liveness, self._loop.time()
        progress = Progress(liveness, self.listener.progressed)
        while True:
            until = min(limit, liveness.due)
            looked = self._loop.time()
            left = min(until - looked, LOOK_SECONDS)
            if left > 0:
                ends = (watch.done, watch.hopeless, self._stop)
                await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if watch.done.done():
                watch.done.result()  # raises ProcessDied when the process is gone
                return None
            if watch.hopeless.done():
                return watch.hopeless.result()
            if self._stop.done():
                return interrupted()
            now = self._loop.time()
            if now - looked > left + STOOD_STILL_SECONDS:
                liveness.heard()  # this process stood still, and has not read what came meanwhile
                continue
            if watch.limited_at is not None and now >= until:
                waited = "the provider limits its rate, and the app-server waited as long as it may"
                return failure("rate_limited", waited, watch.limit_left())
            if now >= limit:
                return liveness.timeout(limit - began)
            if watch.endless:
                return failure("endless_calls", f"the model called tools {MOST_TOOL_CALLS} times without an answer")
            if watch.calls:
                continue  # a tool call has a limit of its own, and so has a person
            if (why := liveness.overdue()) is not None:
                await self._require_alive()
                return why
            progress.report()

    async def _require_alive(self) -> None:
        """Kill an app-server that does not answer: its silence is not the model's. Raises ProcessDied then."""
        if not await self._server.healthy():
            await self._server.client.kill()
            raise self._server.client.died or ProcessDied("the app-server did not answer and was killed")

    def _limit(self) -> float:
        return min(self._deadline, self._loop.time() + self._limits.turn_seconds)

    async def _end(self, watch: TurnWatch, turn_id: str) -> bool:
        await asyncio.wait((watch.started, watch.done), timeout=STARTED_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        requested = self._loop.time()
        if not watch.done.done():
            try:
                async with asyncio.timeout(INTERRUPT_SECONDS):
                    await interrupt(self._server, self.thread_id, turn_id, INTERRUPT_SECONDS)
            except (CodexError, TimeoutError) as error:
                log.warning("turn.not_interrupted", turn=turn_id, error=str(error))
            await asyncio.wait((watch.done,), timeout=requested + ENDED_SECONDS - self._loop.time())
        if not watch.done.done():
            log.error("turn.endless", turn=turn_id, killed=self._server.pid)
            await self._server.client.kill()
            return False
        return watch.done.exception() is None

    def _ended(self, watch: TurnWatch, turn_id: str) -> TurnResult:
        turn = watch.done.result()
        if turn["status"] == "completed" and watch.liveness.cut and not (watch.text or "").strip():
            return self._result(turn_id, watch, "failed", watch.liveness.without_text())
        if turn["status"] == "completed":
            return self._result(turn_id, watch, "completed", None, refusal_in(watch.text))
        if turn["status"] == "interrupted":
            return self._result(turn_id, watch, "interrupted", failure("interrupted", "the turn was interrupted"))
        error = turn.get("error") or watch.error
        why = failure_of_turn(error)
        if why.kind == "context_window" and has_history(self.reason):
            why = why.model_copy(update={"retryable": True})  # the next attempt gets a fresh thread
        if why.kind == "rate_limited" and why.reset_seconds is None:
            why = why.model_copy(update={"reset_seconds": watch.provider_wait()})
        if is_policy(error) or why.kind == "policy":
            return self._result(turn_id, watch, "failed", None, why.message)
        return self._result(turn_id, watch, "failed", why)

    def _result(
        self, turn_id: str, watch: TurnWatch | None, status: TurnStatus, why: Failure | None, refusal: str | None = None
    ) -> TurnResult:
        if watch is None:
            return TurnResult(self.thread_id, turn_id, status, "", Usage(), why, refusal)
        spent = watch.spent(completed=status == "completed")
        why = with_spent(why, spent.total_tokens)
        return TurnResult(
            *(self.thread_id, turn_id, status, watch.text or "", spent, why, refusal),
            context_tokens=watch.liveness.context or watch.context_tokens,
            searches=tuple(watch.searches),
            way=watch.liveness.record,
            cut=watch.liveness.cut,
        )


async def _shielded(work: Coroutine[Any, Any, Any]) -> None:
    """Run work to its end even while the caller is being cancelled; the work has limits of its own."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
        except CodexError as error:
            log.warning("turn.unwanted_not_ended", error=str(error))


class ThreadRecorder:
    """Recorder of one conversation, under the thread's lease.

    A turn that failed or was interrupted is recorded like any other: it is part of the history, in the file and in
    the process's memory, and a copy without it would be refused at the next resume. A turn that died with its process
    is not: its file may be cut, and the next conversation continues from the copy before it.
    """

    def __init__(self, place: ThreadPlace, opened: OpenedThread) -> None:
        old = place.lease.record if has_history(opened.reason) else None
        here = place.wanted.model_dump(include={"mode", "owner", "home", "login", "binary_version"})
        here |= {"thread_id": opened.thread_id, "reason": opened.reason, "rollout_path": opened.path}
        self._record = (old or place.wanted).model_copy(update=here)
        self._thread = _thread(place.lease, opened, self._record)
        self._lease, self._files, self._server = place.lease, place.files, place.server
        self._shortened = opened.shortened
        self._turns = 0
        self._unwritten = False

    async def after_turn(self, result: TurnResult) -> None:
        """Record a turn that is over. A failure here is logged: the turn's result is not lost."""
        if not result.turn_id:
            return  # it never started
        update: dict[str, Any] = {"turn_ids": (*self._record.turn_ids, result.turn_id)}
        update["context_tokens"] = result.context_tokens
        last = {"last_turn_id": result.turn_id} if result.status == "completed" else {}
        self._record = self._record.model_copy(update=update | last)
        self._count(1)
        if result.failure is not None and result.failure.kind == "context_window":
            await self._drop()  # the next attempt starts afresh, with room
        else:
            await self._write()

    async def close(self, conversation: CodexConversation) -> None:
        """Record what `after_turn` was not called for: a turn that its caller gave up."""
        self._count(conversation.turns - self._turns)
        if self._unwritten:
            await self._write()

    def _count(self, turns: int) -> None:
        if turns > 0:
            self._turns += turns
            self._unwritten = True
            self._record = self._record.model_copy(update={"turns": self._record.turns + turns})

    async def _write(self) -> None:
        thread_id = self._record.thread_id
        if not self._server.alive:
            log.warning("thread.process_died", thread=thread_id, generation=self._lease.generation)
        elif self._lease.lost:
            log.warning("thread.not_recorded", thread=thread_id, lease_lost=self._lease.key)
        else:
            place = {"generation": self._lease.generation + 1, "token": self._lease.token, "updated_at": time.time()}
            kept = await self._files.keep(self._thread, self._record.model_copy(update=place), self._shortened)
            if kept is not None:
                await self._save(kept)
        self._unwritten = False

    async def _save(self, record: ThreadRecord) -> None:
        try:
            if not await self._lease.save(record):
                log.warning("thread.not_recorded", thread=record.thread_id, lease_lost=self._lease.key)
        except RedisDown as error:
            log.warning("thread.not_recorded", thread=record.thread_id, error=str(error))

    async def _drop(self) -> None:
        self._unwritten = False
        try:
            await self._lease.drop("rollover:tokens")
        except ServiceError as error:
            log.warning("thread.not_dropped", thread=self._record.thread_id, error=str(error))


class UnregisteredRecorder:
    """Recorder of a thread beside a busy one: it gets no registry record and is never resumed, but its origin is
    kept."""

    def __init__(self, place: ThreadPlace, opened: OpenedThread) -> None:
        self._thread: KeptThread | None = _thread(place.lease, opened, place.wanted)
        self._files = place.files

    async def after_turn(self, result: TurnResult) -> None:
        if result.turn_id:
            await self._write()

    async def close(self, conversation: CodexConversation) -> None:
        if conversation.turns:
            await self._write()

    async def _write(self) -> None:
        """Once: the row is of the thread and not of its turns."""
        if self._thread is not None:
            await self._files.note(self._thread)
            self._thread = None


Recorder = ThreadRecorder | UnregisteredRecorder


def _thread(lease: Lease, opened: OpenedThread, record: ThreadRecord) -> KeptThread:
    """Return the row of the opened thread. record: the registry record that its worker would write."""
    old = lease.record if has_history(opened.reason) else None
    parent_id = old.thread_id if old is not None and old.thread_id != opened.thread_id else None
    here = record.model_copy(update={"thread_id": opened.thread_id, "reason": opened.reason})
    return lease.thread(here, parent_id)


INTERRUPTED_SECONDS = 9.0  # an interrupted turn ends within this, or its process is killed


class CodexRuntime(ActiveRuntime):
    """Implements agents.runtime.Runtime, one a worker process; every method belongs to the loop it was started on.

    registry: a redis.asyncio client, needed for kept threads alone and not closed here. Nothing runs before start(),
    and no app-server before the first conversation. observer records the conversations' events. asker passes a model's
    requests on to a person; without one all are declined. vault has the copies of kept threads; without one they stay
    in this home. on_quota: gets what the provider tells of the account's plan.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        registry: redis.asyncio.Redis | None = None,
        *,
        observer: Observer | None = None,
        asker: Asker | None = None,
        vault: ThreadVault | None = None,
        on_quota: OnQuota | None = None,
    ) -> None:
        self._config, self._vault, self._on_quota = config, vault, on_quota
        self._around = Around(config, observer, asker)
        self._redis = registry
        self._home: Home | None = None
        self._files: RolloutFiles | None = None
        self._pools: dict[Kind, AppServerPool] = {}
        self._preparing = asyncio.Lock()
        super().__init__("Codex runtime", INTERRUPTED_SECONDS)

    async def start(self) -> None:
        """Find the binary, write the catalog and claim a home. Raises BinaryMissing, LoginMissing, CodexError."""
        config = self._config
        find_binary(config.binary)
        self._home = claim_home(config.home, config.worker)
        key = config.provider_key
        self._files = RolloutFiles(self._home, self._vault, [key] if key else ())
        if config.gated:
            self._around = replace(self._around, gateway=await _gateway(config))
        if config.facts is None:
            await self._prepare(self._home)

    async def _prepare(self, home: Home) -> None:
        """Make the pools, once."""
        async with self._preparing:
            if self._pools:
                return
            gateway = self._around.gateway
            launch = await prepare(self._config, gateway.url if gateway is not None else None)
            sizes: dict[Kind, int] = {"kept": self._config.kept_processes, "ephemeral": 1}
            for kind, size in sizes.items():
                self._pools[kind] = AppServerPool(kind, launch, home.of(kind), self._config, size, self._on_quota)

    async def close(self, grace_seconds: float) -> None:
        await super().close(grace_seconds)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        if self._around.gateway is not None:
            await self._around.gateway.close()
        if self._files is not None:
            self._files.close()
        if self._home is not None:
            self._home.release()
            self._home = None

    def status(self) -> list[ProcessStatus]:
        return [
            ProcessStatus(one.kind, one.pid, one.age, one.turns, one.in_flight, one.rss_mb())
            for pool in self._pools.values()
            for one in pool.processes
        ]

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[CodexConversation]:
        """Open a thread for (role, subject), kept or ephemeral, with a turn slot until the block ends.

        deadline: loop.time() by which everything in the block has to be over. A busy kept thread is awaited during the
        first half of the time until then; in the second half a fork runs instead. Raises CodexError, RedisDown; those
        with `retryable` may be tried again.
        """
        home, files = await self._started()
        if not spec.keep:
            async with self._leased("ephemeral", deadline) as server:
                opened = await start(server, spec, "initial")
                async with self._converse(server, spec, opened, deadline, None) as conversation:
                    yield conversation
            return
        loop = asyncio.get_running_loop()
        fork_at = (loop.time() + deadline) / 2
        async with (
            self._registry().hold(spec.role, spec.subject, lambda: fork_at - loop.time()) as lease,
            self._leased("kept", deadline) as server,
        ):
            place = ThreadPlace(server, spec, lease, wanted_record(spec, server, home.id, home.owner), files)
            kept = self._pools["kept"]
            opened = await open_kept(place, self._config, lambda: kept.processes)
            recorder = (ThreadRecorder if lease.held else UnregisteredRecorder)(place, opened)
            async with self._converse(server, spec, opened, deadline, recorder) as conversation:
                try:
                    yield conversation
                finally:
                    await recorder.close(conversation)

    async def fork(
        self, spec: ConversationSpec, source: ThreadRecord, before_turn: str | None, deadline: float
    ) -> ThreadRecord:
        home, files = await self._started()
        async with (
            self._registry().hold(spec.role, spec.subject, lambda: 0.0) as lease,
            self._leased("kept", deadline) as server,
        ):
            if not lease.held or lease.record is not None:
                raise UsageError(f"there is a thread {spec.role}/{spec.subject} already")
            wanted = wanted_record(spec, server, home.id, home.owner)
            return await fork_kept(ThreadPlace(server, spec, lease, wanted, files), source, before_turn)

    @asynccontextmanager
    async def _leased(self, kind: Kind, deadline: float) -> AsyncIterator[AppServer]:
        pool = self._pools[kind]
        async with pool.lease(deadline) as server:
            try:
                yield server
            except RpcTimeout:
                pool.suspect(server)
                raise

    @asynccontextmanager
    async def _converse(
        self,
        server: AppServer,
        spec: ConversationSpec,
        opened: OpenedThread,
        deadline: float,
        recorder: Recorder | None,
    ) -> AsyncIterator[CodexConversation]:
        conversation = CodexConversation(server, spec, opened, deadline, self._around, recorder)
        with self._holding(conversation):
            conversation.listener.opened()
            try:
                yield conversation
            finally:
                conversation.listener.closed()
                unsubscribe(server, opened.thread_id)
                if conversation.last_failure is not None and conversation.last_failure.kind == "rpc_timeout":
                    self._pools[server.kind].suspect(server)

    def _registry(self) -> ThreadRegistry:
        if self._redis is None:
            raise RedisDown("a kept thread needs a Redis, and none is configured", remedy="set DESK_REDIS_URL")
        return ThreadRegistry(self._redis, self._config.lease_seconds, self._vault)

    async def _started(self) -> tuple[Home, RolloutFiles]:
        self._require_open()
        if self._home is None or self._files is None:
            raise CodexError("the Codex runtime was not started")
        await self._prepare(self._home)
        return self._home, self._files


async def _gateway(config: RuntimeConfig) -> Gateway:
    from chordesk.agents.gateway.service import Gateway, Upstream

    assert config.provider_url is not None
    gateway = Gateway(
        Upstream(
            config.provider_url,
            config.provider_key,
            chat=config.facts is not None,
            facts=config.facts,
            ca_file=config.ca_file,
        )
    )
    await gateway.start()
    return gateway
