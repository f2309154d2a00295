"""The app-server's protocol: the client of one process, the requests it sends back, and their answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
import structlog

from chordesk.agents.runtime import NOT_APPROVED, ApprovalDecision, ApprovalKind, ApprovalRequest, Asker, Scope
from chordesk.models.errors import BinaryMissing, ProcessDied, RpcError, RpcTimeout

log = structlog.get_logger(__name__)

Params = dict[str, Any]
OnNotification = Callable[[str, Params], None]
OnRequest = Callable[[str, Params], Awaitable[Params | None]]

LINE_LIMIT = 16 * 1024 * 1024  # bytes of one message, such as a tool's answer with a picture
HEAD_BYTES = 4096  # of a longer one: its id and its method come first
CHUNK = 256 * 1024
OVERLOADED = -32001
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
STDERR_LINES = 40
KILL_SECONDS = 5.0
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ENVELOPE = re.compile(rb'"(?:params|result|error)"\s*:')
_ID, _METHOD = re.compile(rb'"id"\s*:\s*(-?\d+|"[^"]*")'), re.compile(rb'"method"\s*:\s*"([^"]*)"')
_NO_REASON = re.compile(r"^(\S+\s+)?(WARN|INFO|DEBUG|TRACE)\b|^note: ")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\S+\s+")
_LONGEST_CAUSE = 300


class Client:
    """One app-server process and its JSON-RPC connection.

    on_notification(method, params) is called by the reader and must not block; on_request(method, params)
    returns the answer to a server request or None when it does not know the method; on_death(error) is
    called once, after every waiter was failed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        on_notification: OnNotification,
        on_request: OnRequest,
        on_death: Callable[[ProcessDied], None],
        rpc_seconds: float,
        rpcs: int,
    ) -> None:
        self._argv, self._env, self._cwd = list(argv), dict(env), cwd
        self._on_notification, self._on_request, self._on_death = on_notification, on_request, on_death
        self._rpc_seconds = rpc_seconds
        self._slots = asyncio.Semaphore(rpcs)
        self._process: Process | None = None
        self._pending: dict[int, asyncio.Future[Params]] = {}
        self._next = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._readers: list[asyncio.Task[None]] = []
        self.died: ProcessDied | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def start(self, opt_out: Sequence[str]) -> Params:
        """Start the process and do the handshake; return the answer of `initialize`. opt_out: notification methods that
        the server need not send. Raises BinaryMissing, ProcessDied, RpcError, RpcTimeout."""
        try:
            # A session of its own: a Ctrl-C in the terminal must reach the worker, which drains, not the process.
            process = self._process = await asyncio.create_subprocess_exec(
                *self._argv, env=self._env, cwd=self._cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE,
                start_new_session=True,
            )  # fmt: skip
        except (FileNotFoundError, PermissionError) as error:
            raise BinaryMissing(f"cannot run the Codex binary {self._argv[0]}: {error.strerror}") from error
        assert process.stdout is not None
        assert process.stderr is not None
        readers = self._read(process, process.stdout), self._drain_stderr(process.stderr)
        self._readers = [asyncio.create_task(reader) for reader in readers]
        capabilities = {"experimentalApi": True, "optOutNotificationMethods": list(opt_out)}
        info = {"name": "chordesk", "title": "Chordesk", "version": "1"}
        try:
            answer = await self.request("initialize", {"clientInfo": info, "capabilities": capabilities})
        except BaseException:
            await self.close(0)
            raise
        self._write({"method": "initialized"})
        return answer

    async def request(self, method: str, params: Params, seconds: float | None = None) -> Params:
        """Call a method and return its result. At most `rpcs` calls are in flight; a request that an overloaded server
        rejects is retried with jitter, within the limit. Raises RpcError, RpcTimeout, ProcessDied."""
        limit = seconds or self._rpc_seconds
        async with self._slots:
            try:
                async with asyncio.timeout(limit):
                    return await self._until_accepted(method, params)
            except TimeoutError:
                raise RpcTimeout(f"{method} was not answered within {limit:g} s") from None

    def post(self, method: str, params: Params) -> None:
        if self.died is None:
            self._next += 1
            self._write({"id": self._next, "method": method, "params": params})

    async def close(self, seconds: float) -> None:
        if (process := self._process) is None:
            return
        if process.stdin is not None and seconds > 0:
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), seconds)
        await self.kill()
        for task in (*self._readers, *self._tasks):
            task.cancel()
        await asyncio.gather(*self._readers, *self._tasks, return_exceptions=True)
        self._dead("was stopped")

    async def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if (process := self._process) is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), KILL_SECONDS)

    async def _until_accepted(self, method: str, params: Params) -> Params:
        pause = 0.02
        while True:
            try:
                return await self._once(method, params)
            except RpcError as error:
                if error.code != OVERLOADED:
                    raise
            await asyncio.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 2, 1.0)

    async def _once(self, method: str, params: Params) -> Params:
        if self.died is not None:
            raise self.died
        self._next += 1
        number = self._next
        future: asyncio.Future[Params] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            self._write({"id": number, "method": method, "params": params})
            message = await future
        finally:
            self._pending.pop(number, None)
        if (error := message.get("error")) is not None:
            code = error.get("code") if isinstance(error, dict) else None
            why = error.get("message", error) if isinstance(error, dict) else error
            raise RpcError(method, code if isinstance(code, int) else 0, str(why))
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _write(self, message: Params) -> None:
        stdin = self._process.stdin if self._process else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(orjson.dumps(message) + b"\n")

    async def _read(self, process: Process, output: asyncio.StreamReader) -> None:
        parts: list[bytes] = []
        held, skips = 0, False
        while chunk := await output.read(CHUNK):
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"" if skips else b"".join((*parts, lines[0]))
                parts, held, skips = [], 0, False
            for line in lines:
                self._message(line)
            if skips:
                continue
            parts.append(rest)
            held += len(rest)
            if held > LINE_LIMIT:
                self._pass_over(b"".join(parts)[:HEAD_BYTES])
                parts, skips = [], True
        await self._wait_exit(process)

    def _pass_over(self, head: bytes) -> None:
        """Fail what a message of more than LINE_LIMIT belongs to; other turns of the process go on."""
        envelope = _ENVELOPE.split(head, 1)[0]
        number, method = _ID.search(envelope), _METHOD.search(envelope)
        name = method[1].decode(errors="replace") if method is not None else None
        log.error("app_server.line_too_long", method=name, limit=LINE_LIMIT)
        if number is None:
            return
        error = {"code": INTERNAL_ERROR, "message": f"a message of more than {LINE_LIMIT:,} bytes"}
        if name is not None:
            self._write({"id": orjson.loads(number[1]), "error": error})
        else:
            self._message(orjson.dumps({"id": orjson.loads(number[1]), "error": error}))

    async def _wait_exit(self, process: Process) -> None:
        """Output has ended: give the process a moment to report its exit code, then fail every waiter."""
        try:
            code = await asyncio.wait_for(process.wait(), KILL_SECONDS)
        except TimeoutError:
            await self.kill()
            code = -9
        # What it wrote before somebody killed it is not why it ended.
        self._dead(f"exited with code {code}", None if -code in FROM_OUTSIDE else last_error(self._stderr))

    def _dead(self, what: str, cause: str | None = None) -> None:
        if self.died is not None:
            return
        self.died = ProcessDied(f"app-server {self.pid} {what}" + (f": {cause}" if cause else ""))
        for future in self._pending.values():
            if not future.done():
                future.set_exception(self.died)
        self._pending.clear()
        self._on_death(self.died)

    def _message(self, line: bytes) -> None:
        if not line:
            return
        try:
            # No database takes a NUL as text, and no id or answer needs one.
            message = orjson.loads(line.replace(rb"\u0000", rb"\ufffd") if rb"\u0000" in line else line)
        except orjson.JSONDecodeError:
            log.warning("app_server.line_is_no_json", line=repr(line)[:200])
            return
        if not isinstance(message, dict):
            log.warning("app_server.line_is_no_object", line=repr(line)[:200])
            return
        number, method, params = message.get("id"), message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if method is None:
            future = self._pending.get(number) if isinstance(number, int) else None
            if future is not None and not future.done():
                future.set_result(message)
        elif "id" in message:
            task = asyncio.create_task(self._serve(message["id"], str(method), params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._notify(str(method), params)

    def _notify(self, method: str, params: Params) -> None:
        try:
            self._on_notification(method, params)
        except Exception:
            # The reader serves every turn of the process; one bad notification must not end it.
            log.exception("app_server.notification_failed", method=method)

    async def _serve(self, number: int | str, method: str, params: Params) -> None:
        try:
            answer = await self._on_request(method, params)
        except Exception as error:
            log.exception("app_server.request_failed", method=method)
            self._write({"id": number, "error": {"code": INTERNAL_ERROR, "message": f"{method}: {error}"}})
            return
        unknown = {"code": METHOD_NOT_FOUND, "message": f"{method} is not served by this client"}
        self._write({"id": number, "error": unknown} if answer is None else {"id": number, "result": answer})

    async def _drain_stderr(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await output.read(CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            self._stderr.extend(line.decode(errors="replace")[:500] for line in lines[-STDERR_LINES:])
            rest = rest[-4096:]
        if rest:
            self._stderr.append(rest.decode(errors="replace")[:500])


def last_error(lines: Sequence[str]) -> str | None:
    for line in reversed([_COLOURS.sub("", line).strip() for line in lines]):
        if line and not _NO_REASON.search(line):
            return _STAMP.sub("", line)[:_LONGEST_CAUSE]
    return None


# The app-server's requests besides tool calls, and their answers, in the protocol's terms.
#
# By default a model has no shell, no files and no further permissions, and every such request is declined. A role that
# may ask a person for a kind of them gets the tool for it in its threads.

KINDS: Mapping[str, ApprovalKind] = {
    "item/commandExecution/requestApproval": "command",
    "item/fileChange/requestApproval": "file_change",
    "item/permissions/requestApproval": "permissions",
    "item/tool/requestUserInput": "user_input",
}
DECLINED: Mapping[str, Params] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline", "content": None},
    "applyPatchApproval": {"decision": {"denied": {"rejection": "the desk declines"}}},
    "execCommandApproval": {"decision": {"denied": {"rejection": "the desk declines"}}},
}
# A command gets no terminal: input typed into a running one does not always need an approval.
_SHELL = {"features.shell_tool": True, "features.unified_exec_tty": False}
_TOOLS: Mapping[ApprovalKind, Params] = {
    "command": _SHELL,
    "file_change": _SHELL,
    "permissions": {"features.request_permissions_tool": True},
    "user_input": {
        "features.default_mode_request_user_input": True,
        "tools.experimental_request_user_input": {"enabled": True},
    },
}


def thread_settings(approvals: frozenset[ApprovalKind]) -> Params:
    """Return the settings with which a thread is started, resumed or forked, so that its model can make these requests
    and no others. The policy `untrusted` requests every command, harmless ones too. An approved command runs in the
    sandbox, where it can write to its own folder, and again outside when the sandbox seems to have been in its way."""
    config = {key: value for kind in sorted(approvals) for key, value in _TOOLS[kind].items()}
    asks = {"config": config} if config else {}
    if needs_environment(approvals):
        return {"sandbox": "workspace-write", "approvalPolicy": "untrusted", **asks}
    return {"sandbox": "read-only", "approvalPolicy": "never", **asks}


def needs_environment(approvals: frozenset[ApprovalKind]) -> bool:
    return bool(approvals - {"user_input"})


def declined(method: str) -> Params | None:
    found = DECLINED.get(method)
    return dict(found) if found is not None else None


def read_request(method: str, params: Mapping[str, Any], item: Mapping[str, Any] | None) -> ApprovalRequest:
    """Return the request in an app-server message. item: the item it belongs to, if that has started."""
    kind = KINDS[method]
    return ApprovalRequest(
        kind=kind,
        thread_id=str(params["threadId"]),
        turn_id=str(params["turnId"]),
        item_id=str(params["itemId"]),
        approval_id=None if params.get("approvalId") is None else str(params["approvalId"]),
        detail=_DETAILS[kind](params, item or {}),
    )


def answer_to(request: ApprovalRequest, decision: ApprovalDecision) -> Params:
    if request.kind == "permissions":
        granted = request.detail["permissions"] if decision.approved else {}
        return {"permissions": {name: value for name, value in granted.items() if value is not None}, "scope": "turn"}
    if request.kind == "user_input":
        given = decision.answers if decision.approved else {}
        return {"answers": {question: {"answers": list(answers)} for question, answers in given.items()}}
    return {"decision": "accept" if decision.approved else "decline"}


def _command(params: Mapping[str, Any], _item: Mapping[str, Any]) -> Params:
    return {
        "action": params.get("kind") or "command",
        "command": params.get("command"),
        "cwd": params.get("cwd"),
        "reason": params.get("reason"),
        "permissions": params.get("additionalPermissions"),
        "network": params.get("networkApprovalContext"),
    }


def _file_change(params: Mapping[str, Any], item: Mapping[str, Any]) -> Params:
    changes = [
        {"path": change["path"], "change": change["kind"].get("type"), "diff": change["diff"]}
        for change in item.get("changes") or ()
    ]
    return {"changes": changes, "reason": params.get("reason"), "root": params.get("grantRoot")}


def _permissions(params: Mapping[str, Any], _item: Mapping[str, Any]) -> Params:
    return {"permissions": params["permissions"], "cwd": params.get("cwd"), "reason": params.get("reason")}


def _user_input(params: Mapping[str, Any], _item: Mapping[str, Any]) -> Params:
    return {
        "questions": [
            {
                "id": question["id"],
                "header": question.get("header"),
                "question": question["question"],
                "options": [option["label"] for option in question.get("options") or ()],
                "other": bool(question.get("isOther")),
                "secret": bool(question.get("isSecret")),
            }
            for question in params["questions"]
        ]
    }


_DETAILS: Mapping[ApprovalKind, Callable[[Mapping[str, Any], Mapping[str, Any]], Params]] = {
    "command": _command,
    "file_change": _file_change,
    "permissions": _permissions,
    "user_input": _user_input,
}


# Routing of the app-server's approval requests.
#
# A request is declined at once, and its turn continues, unless its role may make it: then it waits for a person, and
# blocks its own turn alone.

SHOWN_BYTES = 16_000  # of what a person is shown; a longer request is declined, since no person could read it


class ApprovalRouter:
    """Router of one conversation's requests. on_declined: called with a request that is declined at once, and the
    reason."""

    def __init__(
        self,
        scope: Scope,
        allowed: frozenset[ApprovalKind],
        asker: Asker | None,
        on_declined: Callable[[ApprovalRequest, str], None],
    ) -> None:
        self._scope, self._allowed, self._asker = scope, allowed, asker
        self._on_declined = on_declined
        self._open: dict[Any, asyncio.Task[ApprovalDecision]] = {}

    async def route(
        self, method: str, params: Mapping[str, Any], item: Mapping[str, Any] | None, seconds: float
    ) -> Params | None:
        """None when the method is not an approval request. seconds: time left of the turn."""
        if method not in KINDS:
            return declined(method)
        request = read_request(method, params, item)
        if (why := self._why_not(request)) is not None:
            log.warning("request.declined", role=self._scope.role, kind=request.kind, why=why)
            self._on_declined(request, why)
            return declined(method)
        if (asking := self._open.get(request.key)) is None:
            # The same request sent twice is one request.
            asking = self._open[request.key] = asyncio.create_task(self._ask(request, seconds))
            asking.add_done_callback(lambda _: self._open.pop(request.key, None))
        return answer_to(request, await asyncio.shield(asking))

    def end(self) -> None:
        for asking in tuple(self._open.values()):
            asking.cancel()

    def _why_not(self, request: ApprovalRequest) -> str | None:
        if request.kind not in self._allowed or self._asker is None:
            return "its role may not ask for this"
        if request.kind == "file_change" and not request.detail["changes"]:
            return "what would be changed is not known"
        if request.kind == "user_input" and any(question["secret"] for question in request.detail["questions"]):
            return "a secret is asked for, and answers are stored"
        if len(orjson.dumps(request.detail)) > SHOWN_BYTES:
            return "it is too long for a person to read"
        return None

    async def _ask(self, request: ApprovalRequest, seconds: float) -> ApprovalDecision:
        assert self._asker is not None
        try:
            return await self._asker.ask(request, self._scope, seconds)
        except Exception:
            log.exception("request.not_asked", kind=request.kind)
            return NOT_APPROVED
