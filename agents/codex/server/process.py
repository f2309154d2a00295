"""One app-server process: its home, its client, and the turns that run in it."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import shutil
from pathlib import Path
from typing import Any, Literal

import psutil
import structlog

from chordesk.agents.codex.config import RuntimeConfig
from chordesk.agents.codex.server.approvals import declined
from chordesk.agents.codex.server.catalog import Launch, link_login
from chordesk.agents.codex.server.client import Client, Params
from chordesk.agents.codex.server.homes import set_aside
from chordesk.agents.codex.server.router import ApprovalRouter
from chordesk.agents.codex.server.watch import LIFE_SIGNS, NotificationListener, TurnWatch
from chordesk.agents.pulse import Pulse
from chordesk.models.errors import CodexError, ProcessDied
from chordesk.tools.registry import ToolAnswer, Toolset, failed

log = structlog.get_logger(__name__)

Kind = Literal["kept", "ephemeral"]
TOOL_CALL = "item/tool/call"
STOP_SECONDS = 2.0
_numbers = itertools.count(1)

# Parts of an answer as they come: for readers that follow the desk live, at a cost.
DELTAS = frozenset({"item/agentMessage/delta", "item/reasoning/summaryTextDelta"})
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
        """Prepare the home, start the process and do the handshake. Raises CodexError."""
        shutil.rmtree(self._sqlite, ignore_errors=True)
        self._sqlite.mkdir(parents=True)
        self.work.mkdir(exist_ok=True)
        link_login(self._config, self.home)
        await asyncio.to_thread(self._set_aside)
        # Where no gateway sees the provider's stream, what the app-server passes on of it are the only signs of life.
        wanted = (DELTAS if self._config.deltas else frozenset()) | (frozenset() if self._config.gated else LIFE_SIGNS)
        await self.client.start([name for name in OPT_OUT if name not in wanted])
        log.info("app_server.started", pid=self.pid, kind=self.kind, home=str(self.home))

    def _set_aside(self) -> None:
        hours, days = self._config.most_thread_age_hours, self._config.rollout_days
        if moved := set_aside(self.home, hours, days, dt.datetime.now()):
            log.info("rollouts.moved_aside", count=moved, home=str(self.home))

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End the process and delete its logs; the sessions folder stays."""
        await self.client.close(seconds)
        shutil.rmtree(self._sqlite, ignore_errors=True)
        shutil.rmtree(self.home / "log", ignore_errors=True)

    async def healthy(self) -> bool:
        """Return whether the process answers a cheap request within the time limit of a request."""
        try:
            await self.client.request("server/diagnostics", {})
        except CodexError as error:
            log.warning("app_server.unhealthy", pid=self.pid, kind=self.kind, error=str(error))
            return False
        return True

    def rss_mb(self) -> float:
        """Resident memory in MiB; 0 when the process is gone."""
        try:
            return float(psutil.Process(self.pid).memory_info().rss) / 2**20 if self.pid else 0.0
        except psutil.NoSuchProcess:
            return 0.0

    def watch(
        self, thread_id: str, tools: Toolset, router: ApprovalRouter, listener: NotificationListener, pulse: Pulse
    ) -> TurnWatch:
        """Route the thread's notifications and requests to a new watch. A thread runs one turn at a time."""
        if thread_id in self._watches:
            raise CodexError(f"thread {thread_id} already runs a turn")
        watch = TurnWatch(tools, router, listener, pulse, gated=self._config.gated, deltas=self._config.deltas)
        if self.client.died is not None:
            watch.fail(self.client.died)
        self._watches[thread_id] = watch
        return watch

    def unwatch(self, thread_id: str) -> None:
        if (watch := self._watches.pop(thread_id, None)) is not None:
            watch.end()

    def _on_notification(self, method: str, params: Params) -> None:
        if (watch := self._watches.get(params.get("threadId", ""))) is not None:
            watch.notify(method, params)

    def _on_death(self, error: ProcessDied) -> None:
        for watch in self._watches.values():
            watch.fail(error)

    async def _on_request(self, method: str, params: Params) -> Params | None:
        watch = self._watches.get(params.get("threadId", ""))
        if method != TOOL_CALL:
            return await watch.decide(method, params, declined(method)) if watch is not None else declined(method)
        name = str(params["tool"])
        if watch is None:
            return _tool_answer(failed(name, "this turn is over"))
        call = _call_tool(watch, name, params.get("arguments"))
        late = _tool_answer(failed(name, "the turn ended before the tool answered"))
        return await watch.call_tool(params, call, late)


async def _call_tool(watch: TurnWatch, name: str, arguments: Any) -> Params:
    """Return a tool's answer. Any error becomes one, so that the turn continues; the toolset times the call out."""
    if not isinstance(arguments, dict):
        return _tool_answer(failed(name, f"the arguments of {name} are not a JSON object"))
    try:
        return _tool_answer(await watch.tools.call(name, arguments))
    except Exception as error:
        log.exception("tool.raised", tool=name)
        return _tool_answer(failed(name, f"{name} failed: {error}"))


def _tool_answer(answer: ToolAnswer) -> Params:
    items = [{"type": "inputText", "text": answer.text()}]
    if answer.image is not None:
        items.append({"type": "inputImage", "imageUrl": answer.image.data_url()})
    return {"success": answer.success, "contentItems": items}
