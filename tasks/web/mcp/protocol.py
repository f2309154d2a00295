"""The server of the Model Context Protocol: the tools, a call's answer, and messages over standard input and output."""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

import structlog
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from sqlmodel import Session, col, select
from starlette.requests import Request

from chordesk.agents.calls.call_reader import coerced
from chordesk.agents.desk_roles import roles_in
from chordesk.agents.prompting import instructions
from chordesk.models import features
from chordesk.models.database.store import Store, require_current
from chordesk.models.errors import DatabaseDown, NotFound
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run
from chordesk.tasks.named_tokens import CALLER
from chordesk.tasks.reading.run_list import opened_by_backtest
from chordesk.tasks.reading.runs import view
from chordesk.tasks.web.mcp.sdk import Handlers, made, server_with
from chordesk.tools.registry import ToolAnswer, Toolset, ToolSpec

RUNS, CHARTS = "desk://runs/", "desk://charts/"
CHART = "chart_render"
LISTED = 50  # runs, the newest but those of backtests' sessions; any other is read by its id
JSON, PNG = "application/json", "image/png"


class RunResources:
    """The runs of a desk as resources. run_id: the only one there is, so that a replay shows nothing later."""

    def __init__(self, settings: Settings, run_id: str | None) -> None:
        self.settings = settings
        self._run_id = run_id
        self._store: Store | None
        try:
            require_current(settings.database)
            self._store = Store(settings.database)
        except DatabaseDown:
            self._store = None

    def newest(self) -> list[types.Resource]:
        if self._store is None:
            return []
        query = select(Run).order_by(col(Run.created_at).desc()).limit(LISTED)
        told = (~opened_by_backtest(), col(Run.kind).not_in(features.places("asides")))
        query = query.where(*(told if self._run_id is None else (col(Run.id) == self._run_id,)))
        with self._store.read() as session:
            return [_resource(run) for run in session.exec(query)]

    def read(self, uri: str) -> str:
        """Return a run as `desk runs show --json` shows it. Raises NotFound."""
        run_id = uri.removeprefix(RUNS)
        if self._store is not None and uri.startswith(RUNS) and self._run_id in (None, run_id):
            with self._store.read() as session:
                if (found := _run(session, run_id)) is not None:
                    return found
        raise NotFound(f"no resource {uri!r}", remedy="resources/list has those there are")


def _run(session: Session, run_id: str) -> str | None:
    run = session.get(Run, run_id)
    return view(session, run).model_dump_json() if run is not None else None


def _resource(run: Run) -> types.Resource:
    about = f"{run.kind} of {run.market_now:%Y-%m-%d}, {run.state}"
    return made(types.Resource, uri=f"{RUNS}{run.id}", name=run.id, description=about, mimeType=JSON)


async def chart(toolset: Toolset, uri: str) -> types.BlobResourceContents:
    """Return the picture of chart_render; the query has its other arguments. Raises NotFound."""
    parts = urlsplit(uri)
    given = {name: int(value) if value.isdecimal() else value for name, value in parse_qsl(parts.query)}
    answer = await toolset.call(CHART, {**given, "symbols": [parts.path.lstrip("/")]})
    if answer.image is None:
        why = answer.payload.get("error") or "; ".join(gap["reason"] for gap in answer.payload["missing"])
        raise NotFound(f"no chart {uri!r}: {why}", remedy="ask for a symbol and a day that the market has")
    picture = base64.b64encode(answer.image.data).decode()
    return made(types.BlobResourceContents, uri=uri, blob=picture, mimeType=answer.image.mime_type)


def resources(runs: RunResources, toolset: Toolset) -> Handlers:
    charts = any(spec.name == CHART for spec in toolset.specs())

    async def listed(_request: object, _params: object) -> types.ListResourcesResult:
        return made(types.ListResourcesResult, resources=runs.newest())

    async def templates(_request: object, _params: object) -> types.ListResourceTemplatesResult:
        about = "A run with its candidates, reports and orders."
        found = [_template(f"{RUNS}{{run}}", "run", about, JSON)]
        if charts:
            path, about = f"{CHARTS}{{symbol}}{{?sessions,interval}}", "A symbol's chart, as chart_render draws it."
            found.append(_template(path, "chart", about, PNG))
        return made(types.ListResourceTemplatesResult, resourceTemplates=found)

    async def read(_request: object, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if charts and uri.startswith(CHARTS):
            return made(types.ReadResourceResult, contents=[await chart(toolset, uri)])
        content = made(types.TextResourceContents, uri=uri, text=runs.read(uri), mimeType=JSON)
        return made(types.ReadResourceResult, contents=[content])

    return {"list_resources": listed, "list_resource_templates": templates, "read_resource": read}


def _template(uri: str, name: str, about: str, kind: str) -> types.ResourceTemplate:
    return made(types.ResourceTemplate, uriTemplate=uri, name=name, description=about, mimeType=kind)


def prompts(settings: Settings) -> Handlers:
    async def listed(_request: object, _params: object) -> types.ListPromptsResult:
        found = [
            types.Prompt(name=key, description=f"The desk's instructions of its role {key}.")
            for key in roles_in(settings)
        ]
        return made(types.ListPromptsResult, prompts=found)

    async def given(_request: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        roles = roles_in(settings)
        if params.name not in roles:
            raise NotFound(f"no prompt {params.name!r}", remedy=f"choose among {', '.join(roles)}")
        text = types.TextContent(type="text", text=instructions(roles[params.name], settings))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    return {"list_prompts": listed, "get_prompt": given}


log = structlog.get_logger(__name__)

INSTRUCTIONS = (
    "Read tools of a trading desk: prices and indicators as of the time in asOf, charts, option chains, news, "
    "filings, the paper account, and what the desk did: orders, runs, verdicts, reasons. What is missing is named in "
    "`missing`. No tool submits an order."
)


def protocol_server(toolset: Toolset, runs: RunResources) -> Server[Any, Any]:
    """Return a server of these tools and runs, and of the roles' prompts. An error of a tool is its result."""
    handlers = {**tools(toolset), **resources(runs, toolset), **prompts(runs.settings)}
    return server_with("chordesk", _version(), INSTRUCTIONS, handlers)


def tools(toolset: Toolset) -> Handlers:
    schemas = {spec.name: spec.input_schema for spec in toolset.specs()}

    async def listed(_request: object, _params: object) -> types.ListToolsResult:
        return made(types.ListToolsResult, tools=[_tool(spec) for spec in toolset.specs()])

    async def called(request: Request | None, params: types.CallToolRequestParams) -> types.CallToolResult:
        # Some clients write a list as JSON text, or one value where a list is taken: what has one meaning is read, and
        # of the rest the desk's own check names each wrong argument and the allowed ones.
        given = dict(params.arguments or {})
        if (schema := schemas.get(params.name)) is not None:
            given, changes = coerced(schema, given)
            if changes:
                log.info("mcp.coerced", tool=params.name, changes=changes)
        answer = await toolset.call(params.name, given)
        if request is not None and request.scope[CALLER].name is not None:
            log.info("mcp.call", tool=params.name, by=request.scope[CALLER].name, success=answer.success)
        return _result(answer)

    return {"list_tools": listed, "call_tool": called}


def _tool(spec: ToolSpec) -> types.Tool:
    hints = made(types.ToolAnnotations, readOnlyHint=True, destructiveHint=False, idempotentHint=True)
    return made(
        types.Tool, name=spec.name, description=spec.description, inputSchema=dict(spec.input_schema),
        outputSchema=spec.output_schema, annotations=hints,
    )  # fmt: skip


def _result(answer: ToolAnswer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text())]
    if answer.image is not None:
        picture = base64.b64encode(answer.image.data).decode()
        content.append(made(types.ImageContent, type="image", data=picture, mimeType=answer.image.mime_type))
    # The same object for a program; a model reads the text.
    structured = dict(answer.payload) if answer.success else None
    return made(types.CallToolResult, content=content, structuredContent=structured, isError=not answer.success)


def _version() -> str:
    try:
        return importlib.metadata.version("chordesk")
    except importlib.metadata.PackageNotFoundError:  # run from its folder
        return "0"


MOST_BYTES = 4 * 1024 * 1024  # of a line, as the HTTP server's of a body


def serve_stdio(toolset: Toolset, runs: RunResources) -> None:
    """Until standard input ends or the reader leaves. All that is not a message goes to standard error."""
    output = sys.stdout.buffer
    with redirect_stdout(sys.stderr):
        asyncio.run(_serve(toolset, runs, output))


async def _serve(toolset: Toolset, runs: RunResources, output: BinaryIO) -> None:
    server = protocol_server(toolset, runs)
    try:
        async with stdio_server(_Lines(), _Output(output)) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except BaseExceptionGroup as group:
        _raise_first(group)


def _raise_first(group: BaseExceptionGroup[BaseException]) -> None:
    """Raise what ended the server, by itself; return where that is a reader that left."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if not isinstance(first, BrokenPipeError):
        raise first from None


class _Lines:
    """The lines of standard input. A thread of its own reads them: one of a pool would hold up the end of this process
    until there is a next line."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # The stream of sys.stdin is locked while somebody reads, and the interpreter's end wants that lock.
        self._input = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self._input.readline(MOST_BYTES):
                self._hand_over(line.decode("utf-8", errors="replace"))
            self._hand_over(None)
        except RuntimeError:  # the loop has ended
            return

    def _hand_over(self, line: str | None) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, line)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._queue.get()) is not None:
            yield line


class _Output:
    """Standard output. Written by the loop itself: a reader that is slow would hold up nothing but its own answers."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output

    async def write(self, text: str) -> None:
        self._output.write(text.encode())

    async def flush(self) -> None:
        self._output.flush()
