"""One app-server process: its home, its client, and the turns that run in it."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import logging
import shutil
from pathlib import Path
from typing import Any, Literal

import orjson
import psutil

from agents.codex.approvals import declined
from agents.codex.catalog import Launch, link_login
from agents.codex.client import Client, Params
from agents.codex.config import RuntimeConfig
from agents.codex.homes import set_aside
from agents.codex.router import ApprovalRouter
from agents.codex.watch import Listener, TurnWatch
from models.errors import CodexError, ProcessDied
from tools.registry import Toolset

log = logging.getLogger(__name__)

Kind = Literal["kept", "ephemeral"]
TOOL_CALL = "item/tool/call"
STOP_SECONDS = 2.0
_numbers = itertools.count(1)

# What a model says while it says it: wanted by whoever follows the desk live, at a price.
DELTAS = ("item/agentMessage/delta", "item/reasoning/summaryTextDelta")
# Every notification costs a write there and a parse here; a turn needs six of them: error, item/started,
# item/completed, thread/tokenUsage/updated, turn/started, turn/completed. item/started is 1% of an ephemeral turn.
OPT_OUT = (
    "thread/started", "thread/status/changed", "thread/readState/changed", "thread/archived", "thread/deleted",
    "thread/unarchived", "thread/closed", "thread/reverted", "thread/name/updated", "thread/attachment/updated",
    "thread/goal/updated", "thread/goal/cleared", "thread/prediction/updated", "thread/queue/changed",
    "thread/project/updated", "thread/environment/connected", "thread/environment/disconnected",
    "thread/settings/updated", "thread/compacted", "project/changed", "skills/changed",
    "item/agentMessage/delta", "item/plan/delta", "item/reasoning/summaryTextDelta",
    "item/reasoning/summaryPartAdded", "item/reasoning/textDelta", "item/mcpToolCall/progress",
    "item/commandExecution/outputDelta", "item/fileChange/outputDelta", "item/fileChange/patchUpdated",
    "turn/diff/updated", "turn/plan/updated", "turn/moderationMetadata", "hook/started", "hook/completed",
    "serverRequest/resolved", "account/rateLimits/updated", "account/updated", "app/list/updated",
    "remoteControl/status/changed", "mcpServer/startupStatus/updated", "fs/changed", "model/rerouted",
    "model/verification", "model/safetyBuffering/updated", "configWarning", "deprecationNotice", "warning",
    "guardianWarning",
)  # fmt: skip


class AppServer:
    """A running app-server. in_flight and turns are kept by the pool that owns it."""

    def __init__(self, kind: Kind, launch: Launch, home: Path, config: RuntimeConfig) -> None:
        self.kind, self.home, self.work = kind, home, home / "work"
        self.launch = launch
        self.in_flight = 0
        self.turns = 0
        self.retired = False
        self._config = config
        self._sqlite = home / "sqlite" / str(next(_numbers))
        self._watches: dict[str, TurnWatch] = {}
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self.client = Client(
            launch.argv(self._sqlite), launch.environment(home), str(home),
            on_notification=self._on_notification, on_request=self._on_request, on_death=self._on_death,
            rpc_seconds=config.rpc_seconds, rpcs=config.rpcs,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.client.pid

    @property
    def alive(self) -> bool:
        return self.client.died is None

    @property
    def age(self) -> float:
        return self._loop.time() - self._started_at

    async def start(self) -> None:
        """Makes the home ready, starts the process and shakes hands. Raises CodexError."""
        shutil.rmtree(self._sqlite, ignore_errors=True)
        self._sqlite.mkdir(parents=True)
        self.work.mkdir(exist_ok=True)
        link_login(self._config, self.home)
        await asyncio.to_thread(self._set_aside)
        await self.client.start([name for name in OPT_OUT if not (self._config.deltas and name in DELTAS)])
        log.info("app-server %d (%s) started in %s", self.pid, self.kind, self.home)

    def _set_aside(self) -> None:
        hours, days = self._config.most_thread_age_hours, self._config.rollout_days
        moved = set_aside(self.home, hours, days, dt.datetime.now())
        if moved:
            log.info("%d rollouts in %s are too old to be gone on with; moved aside", moved, self.home)

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ends the process and wipes its logs; the sessions folder stays."""
        await self.client.close(seconds)
        shutil.rmtree(self._sqlite, ignore_errors=True)
        shutil.rmtree(self.home / "log", ignore_errors=True)

    async def healthy(self) -> bool:
        """Whether the process answers a cheap request within the time limit of a request."""
        try:
            await self.client.request("server/diagnostics", {})
        except CodexError as error:
            log.warning("app-server %d (%s) failed its health check: %s", self.pid, self.kind, error)
            return False
        return True

    def rss_mb(self) -> float:
        """Resident memory in MiB; 0 when the process is gone."""
        try:
            return float(psutil.Process(self.pid).memory_info().rss) / 2**20 if self.pid else 0.0
        except psutil.NoSuchProcess:
            return 0.0

    def watch(
        self, thread_id: str, tools: Toolset, router: ApprovalRouter, listener: Listener | None = None
    ) -> TurnWatch:
        """Routes what is said and asked of the thread to a new watch. One turn at a time per thread."""
        if thread_id in self._watches:
            raise CodexError(f"thread {thread_id} already runs a turn")
        watch = TurnWatch(tools, self._config.tool_seconds, router, listener)
        if self.client.died is not None:
            watch.fail(self.client.died)
        self._watches[thread_id] = watch
        return watch

    def unwatch(self, thread_id: str) -> None:
        watch = self._watches.pop(thread_id, None)
        if watch is not None:
            watch.end()

    def _on_notification(self, method: str, params: Params) -> None:
        watch = self._watches.get(params.get("threadId", ""))
        if watch is not None:
            watch.notify(method, params)

    def _on_death(self, error: ProcessDied) -> None:
        for watch in self._watches.values():
            watch.fail(error)

    async def _on_request(self, method: str, params: Params) -> Params | None:
        watch = self._watches.get(params.get("threadId", ""))
        if method != TOOL_CALL:
            return await watch.decide(method, params, declined(method)) if watch is not None else declined(method)
        if watch is None:
            return _tool_answer(False, _error_text("this turn is over"))
        call = _call_tool(watch, str(params["tool"]), params.get("arguments"))
        late = _tool_answer(False, _error_text("the turn ended before the tool answered"))
        return await watch.call_tool(params, call, late)


async def _call_tool(watch: TurnWatch, name: str, arguments: Any) -> Params:
    """One tool call with its time limit. Whatever goes wrong becomes an answer, so that the turn goes on."""
    if not isinstance(arguments, dict):
        return _tool_answer(False, _error_text(f"the arguments of {name} are not a JSON object"))
    try:
        async with asyncio.timeout(watch.tool_seconds):
            answer = await watch.tools.call(name, arguments)
    except TimeoutError:
        return _tool_answer(False, _error_text(f"{name} did not answer within {watch.tool_seconds:g} s"))
    except Exception as error:
        log.exception("tool %s raised", name)
        return _tool_answer(False, _error_text(f"{name} failed: {error}"))
    return _tool_answer(answer.success, answer.text())


def _tool_answer(success: bool, text: str) -> Params:
    return {"success": success, "contentItems": [{"type": "inputText", "text": text}]}


def _error_text(message: str) -> str:
    return orjson.dumps({"error": message, "success": False}).decode()
