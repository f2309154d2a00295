"""State of one running turn: its progress, its answer so far, its tokens, its tool calls, and its failure."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import orjson
import structlog

from chordesk.agents.codex.protocol import ApprovalRouter
from chordesk.agents.gateway.server_requests import failure_in
from chordesk.agents.providers.completions import is_object
from chordesk.agents.providers.liveness import RAISE, Liveness, declines, failure, masked_message
from chordesk.agents.providers.provider_limits import LIMITS, NO_CREDIT, RATE_LIMITED, limit_of, reset_in
from chordesk.agents.runtime import RogueCall, WebSearch
from chordesk.models.answers import Failure, Usage
from chordesk.models.errors import DeskError, ProcessDied, RpcTimeout, ThreadInUse, kind_of
from chordesk.models.tables.columns import utcnow
from chordesk.tools.registry import Toolset

# Mapping of the app-server's errors to the desk's failure kinds.
#
# Errors of the binary (measured, 0.163): 401, 403 and 404 come as `httpConnectionFailed` with the status, 429 as
# `responseTooManyFailedAttempts`, 500 as `internalServerError`, 503 as `serverOverloaded`; a 400 and a cut stream
# are both `other` and differ only in the message.
#
# A provider's `Retry-After` is honoured by the app-server itself and not reported: after the first 429 it announces a
# retry and waits for that time. So the length of its whole wait is the provider's own figure, and of a wait that was
# cut short nothing is known. A limit inside a stream has the figure in its message.
#
# With a login the app-server's own retries cannot be turned down: five requests a try and six tries. So a turn ends at
# the second try that a limit ended, and at the first that five answers of 500 did.

# The provider's own safety systems stopped the turn: a refusal, not a fault.
POLICY = frozenset({"cyberPolicy", "misalignmentPolicyViolation"})

_BY_CODE = {
    "contextWindowExceeded": "context_window",
    "sessionBudgetExceeded": "budget_used",
    "usageLimitExceeded": "usage_limit",
    "rateLimitExceeded": "rate_limited",
    "flexUnavailable": "overloaded",
    "serverOverloaded": "overloaded",
    "internalServerError": "server_error",
    "unauthorized": "unauthorized",
    "badRequest": "bad_request",
    **dict.fromkeys(POLICY, "policy"),
}
_BY_STATUS = {
    400: "bad_request", 401: "unauthorized", 403: "unauthorized", 404: "not_found", 429: "rate_limited",
    503: "overloaded",
}  # fmt: skip
_STREAM, _UNREACHED = "stream disconnected", "Connection failed"
_INCOMPLETE = "Incomplete response returned, reason:"
_STATUS_IN_TEXT = re.compile(r"unexpected status (\d{3})")
_LIMIT_IN_STREAM = "rate limit exceeded"
NO_ANSWER = "the model ended its turn without an answer (the app-server does not pass on the text of a refusal)"


def failure_of_turn(error: Mapping[str, Any] | None) -> Failure:
    if not error:
        return failure("unknown", "the turn failed and the app-server gave no reason")
    message = str(error.get("message") or "no message")
    if (told := failure_in(message)) is not None:
        return told
    if message.startswith(_INCOMPLETE):
        return failure("length", f"{message}: the provider's limit of tokens for one answer; {RAISE['output']}")
    kind = _kind(error.get("codexErrorInfo"), message)
    return _of_limit(message, kind) if kind in LIMITS else failure(kind, message)


def failure_of_try(error: Mapping[str, Any]) -> Failure | None:
    """Return the failure of a try after which the app-server announced another one: a limit, or answers of 500. None
    for any other, of which the last try tells more."""
    details = str(error.get("additionalDetails") or "")
    if is_limit(error):
        return _of_limit(details, RATE_LIMITED)
    other = not details or details.startswith((_STREAM, _UNREACHED)) or _STATUS_IN_TEXT.search(details)
    return None if other else failure("server_error", details)


def _of_limit(message: str, kind: str) -> Failure:
    """Return a limit's failure: the app-server's code does not tell a bill that is not paid from a plan's limit, and
    calls every limit within a stream a rate limit."""
    found = limit_of(429, message)
    if found is not None and (found.kind == NO_CREDIT or kind == RATE_LIMITED):
        kind = found.kind
    return failure(kind, message, reset_in(message) if kind in LIMITS else None)


def is_limit(error: Mapping[str, Any] | None) -> bool:
    if not error:
        return False
    details = str(error.get("additionalDetails") or "")
    info = error.get("codexErrorInfo")
    return details.startswith(_LIMIT_IN_STREAM) or _kind(info, details) == "rate_limited"


def failure_of_error(error: DeskError) -> Failure:
    if isinstance(error, ProcessDied | RpcTimeout | ThreadInUse):
        return failure(kind_of(error), str(error))
    return Failure(kind="rpc_error", retryable=error.retryable, message=masked_message(str(error)))


def is_policy(error: Mapping[str, Any] | None) -> bool:
    info = (error or {}).get("codexErrorInfo")
    filtered = str((error or {}).get("message") or "").startswith(f"{_INCOMPLETE} content_filter")
    return filtered or (isinstance(info, str) and info in POLICY)


def refusal_in(text: str | None) -> str | None:
    if text is None or not text.strip():
        return NO_ANSWER
    return text if declines(text) else None


def _kind(info: Any, message: str) -> str:
    if isinstance(info, str) and info in _BY_CODE:
        return _BY_CODE[info]
    if (status := _status(info, message)) is not None:
        return _BY_STATUS.get(status, "server_error" if status >= 500 else "bad_request")
    if message.startswith(_STREAM):
        return "stream_cut"
    if isinstance(info, Mapping):
        return "stream_cut" if "responseStreamDisconnected" in info else "unreachable"
    return "bad_request" if info == "other" else "unknown"


def _status(info: Any, message: str) -> int | None:
    if isinstance(info, Mapping):
        for detail in info.values():
            status = detail.get("httpStatusCode") if isinstance(detail, Mapping) else None
            if isinstance(status, int):
                return status
    found = _STATUS_IN_TEXT.search(message)
    return int(found.group(1)) if found else None


log = structlog.get_logger(__name__)

_USAGE_FIELDS = {
    "input_tokens": "inputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "output_tokens": "outputTokens",
    "reasoning_tokens": "reasoningOutputTokens",
    "total_tokens": "totalTokens",
}


SEARCH_ITEM = "webSearch"
# An item as the provider sent it. The app-server answers a call of a tool that its thread does not have, and one whose
# arguments it cannot parse, without a word to anyone (measured, 0.163): the item is all there is of it. It is passed on
# for threads that were started with `experimentalRawEvents`; those that are kept have it in their rollouts.
RAW_ITEM = "rawResponseItem/completed"
_NO_TOOL_CALLS = frozenset({"web_search_call", "image_generation_call"})  # the provider's own
MOST_ROGUE_CALLS = 100  # of a turn, on record
MOST_TOOL_CALLS = 64  # of one turn: the longest of an honest model had 16, and each further one sends all before it
_REASONING = frozenset(
    {"item/reasoning/textDelta", "item/reasoning/summaryTextDelta", "item/reasoning/summaryPartAdded"}
)
# Notifications of pieces of the provider's stream.
LIFE_SIGNS = _REASONING | {"item/agentMessage/delta"}
LONGEST_SECONDS = 60.0  # of a limit that the app-server waits for by itself
# A shorter wait before the app-server's own retry is its own, not one that the provider asked for.
ASKED_SECONDS = 1.0

Answer = dict[str, Any]
T = TypeVar("T")


# Called with the method, its parameters and the turn's answer so far.
NotificationListener = Callable[[str, Mapping[str, Any], str | None], None]


class TurnWatch:
    """Collector of the notifications of one turn. `done` gets the protocol's Turn, or ProcessDied.

    hopeless gets the failure for which no further try of the app-server is waited for.
    context_tokens: input tokens of the last model call that was counted. limited_at: loop time since when the
    app-server waits for the provider's limit to pass; None when it does not.
    on_limited: called when that starts, with the seconds that the provider named, if it did. until: loop time at which
    the turn is ended. calls: calls that the app-server waits for, each with a limit of its own. liveness: the turn's
    life signs; with `gated` the gateway reports those of the provider. deltas: pieces of the answer are recorded.
    rogue: calls that the app-server answered by itself. on_rogue: gets each as soon as it is seen.
    """

    def __init__(
        self,
        tools: Toolset,
        router: ApprovalRouter,
        listener: NotificationListener,
        liveness: Liveness,
        *,
        gated: bool = False,
        deltas: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.liveness, self._gated, self._deltas = liveness, gated, deltas
        self.tools = tools
        self.until = math.inf
        self._router, self._listener = router, listener
        self._items: dict[str, Mapping[str, Any]] = {}
        self.done: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.hopeless: asyncio.Future[Failure] = self._loop.create_future()
        self._tried: Failure | None = None  # the last try of the app-server that failed
        self.turn_id: str | None = None
        self.text: str | None = None
        self.error: dict[str, Any] | None = None
        self._usage = Usage()
        self._counted: Mapping[str, Any] | None = None
        self._calls_counted = 0
        self._called_tool = False
        self.context_tokens: int | None = None
        self.limited_at: float | None = None
        self.on_limited: Callable[[float | None], None] | None = None
        self.calls: set[asyncio.Future[Any]] = set()
        self.searches: list[WebSearch] = []
        self.tool_calls = 0
        self._own = frozenset(spec.name for spec in tools.specs())
        self._handled: set[str] = set()
        self._made: dict[str, RogueCall] = {}
        self.on_rogue: Callable[[RogueCall], None] | None = None
        liveness.on_item = lambda item: self.made(item, utcnow())

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "turn/started":
            self.turn_id = params["turn"]["id"]
            if not self.started.done():
                self.started.set_result(None)
            if not self._gated:
                self.liveness.requested()
            self._record(method, params)
        elif method == "turn/completed":
            if self.turn_id in (None, params["turn"]["id"]) and not self.done.done():
                self.done.set_result(params["turn"])
                self._record(method, params)
        elif params.get("turnId") == self.turn_id:
            if not self._gated:
                self._sign(method, params)
            if method in LIFE_SIGNS and not self._deltas:
                return
            if method == RAW_ITEM:
                self.made(params["item"], utcnow())
                return
            self._progress(method, params)
            self._record(method, params)

    def made(self, item: Mapping[str, Any], at: dt.datetime) -> None:
        """Note a call among the provider's items. A call that the app-server passes on is not rogue."""
        kind, id_ = str(item.get("type")), str(item.get("call_id") or item.get("id"))
        if not kind.endswith("_call") or kind in _NO_TOOL_CALLS or len(self._made) >= MOST_ROGUE_CALLS:
            return
        name = ".".join(filter(None, (item.get("namespace"), item.get("name") or kind)))
        given = item.get("arguments") or item.get("input") or item.get("action") or ""
        arguments = given if isinstance(given, str) else orjson.dumps(given).decode()
        if id_ not in self._made and (name not in self._own or not is_object(arguments)):
            self._made[id_] = RogueCall(at, name, arguments)
            self.tool_calls += 1
            if self.on_rogue is not None:
                self.on_rogue(self._made[id_])

    @property
    def rogue(self) -> tuple[RogueCall, ...]:
        unanswered = (RogueCall(utcnow(), *call) for call in self.liveness.unanswered if call[0] not in self._own)
        return (*(call for id_, call in self._made.items() if id_ not in self._handled), *unanswered)

    def spent(self, *, completed: bool) -> Usage:
        """Return the tokens of the turn: unknown if fewer model calls were counted than there were at the least. An
        answer takes one, and a tool's answer another one before it; a turn that failed may have had none. Where a
        provider counted nothing, the app-server's count is its own estimate."""
        if self._gated and not self.liveness.counts:
            return Usage.unknown() if completed or self.liveness.tokens else Usage()
        least = 1 + self._called_tool if completed else 0
        return self._usage if self._calls_counted >= least else Usage.unknown()

    async def call_tool(self, params: Mapping[str, Any], call: Coroutine[Any, Any, Answer], late: Answer) -> Answer:
        """Answer a tool call. late: the answer when the turn ends first, as it does after too many calls."""
        self.tool_calls += 1
        self._handled.add(str(params.get("callId")))
        if self.endless:
            call.close()
            return await self._answer(_never(), late)
        self._record("item/tool/call", params)
        return await self._answer(call, late)

    async def decide(self, method: str, params: Mapping[str, Any], late: Answer | None) -> Answer | None:
        """Answer an approval request, which may take a person's time. late: the answer when the turn ends first."""
        self._handled.add(str(params.get("itemId")))
        item = self._items.get(str(params.get("itemId")))
        left = self.until - self._loop.time()
        return await self._answer(self._router.route(method, params, item, left), late)

    @property
    def endless(self) -> bool:
        return self.tool_calls > MOST_TOOL_CALLS

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # there may be no waiter yet; do not warn about that

    def end(self) -> None:
        for call in self.calls:
            call.cancel()
        self._router.end()

    def provider_wait(self) -> float | None:
        """Return the seconds for which the provider made the app-server wait; None when it did not."""
        waited = self._waited()
        return waited if waited >= ASKED_SECONDS else None

    def limit_left(self) -> float | None:
        """Return the seconds that are left of a wait that was cut short; None where the provider named none."""
        named = self._tried.reset_seconds if self._tried is not None else None
        return max(named - self._waited(), 0.0) if named is not None else None

    def _waited(self) -> float:
        return self._loop.time() - self.limited_at if self.limited_at is not None else 0.0

    async def _answer(self, work: Coroutine[Any, Any, T], late: T) -> T:
        call = asyncio.ensure_future(work)
        self.calls.add(call)
        self.liveness.uses_tools()
        call.add_done_callback(self.calls.discard)
        try:
            return await call
        except asyncio.CancelledError:
            if not call.cancelled():
                raise  # the client is closing
            return late
        finally:
            self._resume()

    def _resume(self) -> None:
        """The app-server goes on with the next model call, once no other answer is due."""
        if len(self.calls) <= 1:
            (self.liveness.waits if self._gated else self.liveness.requested)()

    def _record(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            self._listener(method, params, self.text)
        except Exception:
            # The turn does not depend on its record.
            log.exception("notification.not_recorded", method=method)

    def _sign(self, method: str, params: Mapping[str, Any]) -> None:
        """Report what a notification says of the provider's stream."""
        if method == "item/agentMessage/delta":
            self.liveness.writes(str(params.get("delta") or ""))
        elif method in _REASONING:
            self.liveness.reasons(str(params.get("delta") or ""))
        elif method == "item/started" and params["item"].get("type") == "reasoning":
            self.liveness.reasons()
        else:
            self.liveness.heard()

    def _progress(self, method: str, params: Mapping[str, Any]) -> None:
        if method != "error":
            self.limited_at = self._tried = None
        if method == "item/started":
            self._items[params["item"]["id"]] = params["item"]
            self._handled.add(str(params["item"]["id"]))
        elif method == "item/completed":
            self._items.pop(params["item"]["id"], None)
            self._item(params["item"])
        elif method == "thread/tokenUsage/updated":
            self._count(params["tokenUsage"])
        elif method == "error":
            self._failed(params)

    def _count(self, counted: Mapping[str, Any]) -> None:
        """Add the tokens of one more model call; a message about the same call again counts once."""
        if counted == self._counted:
            return
        self._counted = counted
        call = Usage(**counts_of(counted.get("last")))
        if call.missing:
            log.warning("usage.invalid", turn=self.turn_id, fields=call.missing, last=counted.get("last"))
        self._usage += call
        self._calls_counted += 1
        self.context_tokens = call.input_tokens

    def _failed(self, params: Mapping[str, Any]) -> None:
        error = params.get("error")
        self.error = None if params.get("willRetry") else error
        if not params.get("willRetry"):
            return
        before, self._tried = self._tried, failure_of_try(error or {})
        if self._tried is None:
            return
        # The app-server would meet a longer limit again and again.
        limited = self._tried.kind == RATE_LIMITED and (self._tried.reset_seconds or 0.0) <= LONGEST_SECONDS
        if (before is not None or not limited) and not self.hopeless.done():
            wait = self._tried.reset_seconds or (self.provider_wait() if limited else None)
            self.hopeless.set_result(self._tried.model_copy(update={"reset_seconds": wait}))
        elif limited:
            self.limited_at = self._loop.time()
            if self.on_limited is not None:
                self.on_limited(self._tried.reset_seconds)

    def _item(self, item: Mapping[str, Any]) -> None:
        if item.get("type") == "agentMessage":
            self.text = item.get("text")
        elif item.get("type") == "dynamicToolCall":
            self.text = None  # a message before a tool call is not the answer
            self._called_tool = True
        elif item.get("type") == SEARCH_ITEM:
            self.searches.append(_search(item))


async def _never() -> Answer:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("it is cancelled with its turn")


def _search(item: Mapping[str, Any]) -> WebSearch:
    action = item.get("action") or {}
    queries = [*(action.get("queries") or ()), action.get("query"), None if action.get("url") else item.get("query")]
    results = [row["url"] for row in item.get("results") or () if isinstance(row, Mapping) and row.get("url")]
    return WebSearch(
        at=utcnow(),
        action=str(action.get("type") or "other"),
        queries=tuple(dict.fromkeys(str(query) for query in queries if query)),
        url=str(action["url"]) if action.get("url") else None,
        results=tuple(map(str, results)),
    )


def counts_of(breakdown: Any) -> dict[str, int | None]:
    found = breakdown if isinstance(breakdown, Mapping) else {}
    return {name: _count(found.get(wire)) for name, wire in _USAGE_FIELDS.items()}


def _count(value: Any) -> int | None:
    if type(value) is int and value >= 0:  # as it is nearly always
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None
