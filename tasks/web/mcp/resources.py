"""What a client of the Model Context Protocol reads beside the tools: the desk's runs, charts, and its roles'
prompts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, urlsplit

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from pydantic import AnyUrl
from sqlmodel import Session, col, select

from chordesk.agents.prompting import instructions
from chordesk.agents.roles import ROLES
from chordesk.models.database.store import Store, require_current
from chordesk.models.errors import DatabaseDown, NotFound
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.runs import view
from chordesk.tools.registry import Toolset

RUNS, CHARTS = "desk://runs/", "desk://charts/"
CHART = "chart_render"
LISTED = 50  # runs, the newest; any other is read by its id
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
        if self._run_id is not None:
            query = query.where(Run.id == self._run_id)
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
    return types.Resource(uri=AnyUrl(f"{RUNS}{run.id}"), name=run.id, description=about, mimeType=JSON)


async def chart(toolset: Toolset, uri: str) -> ReadResourceContents:
    """Return the picture of chart_render; the query has its other arguments. Raises NotFound."""
    parts = urlsplit(uri)
    given = {name: int(value) if value.isdecimal() else value for name, value in parse_qsl(parts.query)}
    answer = await toolset.call(CHART, {**given, "symbols": [parts.path.lstrip("/")]})
    if answer.image is None:
        why = answer.payload.get("error") or "; ".join(gap["reason"] for gap in answer.payload["missing"])
        raise NotFound(f"no chart {uri!r}: {why}", remedy="ask for a symbol and a day that the market has")
    return ReadResourceContents(answer.image.data, answer.image.mime_type)


def add_resources(server: Server, runs: RunResources, toolset: Toolset) -> None:
    charts = any(spec.name == CHART for spec in toolset.specs())

    async def listed() -> list[types.Resource]:
        return runs.newest()

    async def templates() -> list[types.ResourceTemplate]:
        about = "A run with its candidates, reports and orders."
        found = [types.ResourceTemplate(uriTemplate=f"{RUNS}{{run}}", name="run", description=about, mimeType=JSON)]
        if charts:
            path, about = f"{CHARTS}{{symbol}}{{?sessions,interval}}", "A symbol's chart, as chart_render draws it."
            found.append(types.ResourceTemplate(uriTemplate=path, name="chart", description=about, mimeType=PNG))
        return found

    async def read(uri: AnyUrl) -> Iterable[ReadResourceContents]:
        if charts and str(uri).startswith(CHARTS):
            return [await chart(toolset, str(uri))]
        return [ReadResourceContents(runs.read(str(uri)), JSON)]

    server.list_resources()(listed)
    server.list_resource_templates()(templates)
    server.read_resource()(read)


def add_prompts(server: Server, settings: Settings) -> None:
    async def listed() -> list[types.Prompt]:
        return [types.Prompt(name=key, description=f"The desk's instructions of its role {key}.") for key in ROLES]

    async def given(name: str, _arguments: dict[str, str] | None) -> types.GetPromptResult:
        if name not in ROLES:
            raise NotFound(f"no prompt {name!r}", remedy=f"choose among {', '.join(ROLES)}")
        text = types.TextContent(type="text", text=instructions(ROLES[name], settings))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    server.list_prompts()(listed)
    server.get_prompt()(given)
