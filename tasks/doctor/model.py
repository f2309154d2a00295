"""Checks of the model: what its server can do, one real turn of the provider, and exactly our tools in front of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chordesk.agents.gateway.facts import SchemaWay, ServerFacts, ToolWay, keep_facts, known_facts
from chordesk.agents.gateway.probe import ask_server
from chordesk.agents.providers.liveness import RAISE
from chordesk.agents.role_models import LOCAL, RULES_MODEL, local_url, models_in_use, models_of, role_models
from chordesk.agents.roles import ROLES
from chordesk.agents.rulebook.server import answer
from chordesk.agents.runner import Assignment, RoleRun, Runner
from chordesk.agents.subjects import screener_subject
from chordesk.models.answers import Completed, Failed, Refused
from chordesk.models.errors import BinaryMissing, DeskError, LoginMissing, ModelMissing, ServiceError
from chordesk.models.model_prices import AS_OF, is_listed, price_by_name, prices
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import Desk, require_provider, settings_of_server
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus, fail, ok, warn
from chordesk.tasks.reading.plan_windows import quota_rows
from chordesk.tasks.services.plan import LOOPBACK, free_ports
from chordesk.tools.market.universe import resolve_universe

ASK_SECONDS = 540.0  # for all models: a person waits, and gets to know more of a slow server than a turn would
LEAST_SECONDS = 120.0  # for one model of several
WIDTH = 11  # of a label
_one = threading.Lock()  # the checks run at once, and a server may work on one turn at a time

_ANSWERS: Mapping[SchemaWay, str] = {
    "json_schema": "held to the JSON schema by the server (response_format)",
    "forced_tool": "as arguments of a tool that the model is made to call",
    "json_object": "JSON by the server's JSON mode, its schema in words, one repair",
    "words": "the schema in words, one repair",
}
_TOOLS: Mapping[ToolWay, str] = {"native": "the server's own tool calls", "schema": "put into the answer's schema"}
_BESIDE = {
    True: "together",
    False: "tools first; an answer that does not fit is asked for again with the schema",
    None: "not found out",
}


def server(context: CheckContext) -> Check:
    """Check what the server of each local model can do, or that an endpoint's URL has a Responses API."""
    settings = context.settings
    models, url = models_of(models_in_use(settings), LOCAL), local_url(settings)
    require_provider(settings)
    if not models or url is None:
        detail = f"{masked(str(settings.provider_url))} has a Responses API" if settings.provider == "endpoint" else ""
        return ok(detail or "no role uses a model server")
    found = [facts_now(context, model, max(ASK_SECONDS / len(models), LEAST_SECONDS)) for model in models]
    weak = dict.fromkeys(text for facts in found for text in weaknesses(facts, settings))
    status = CheckStatus.WARN if weak else CheckStatus.OK
    return Check("server", status, "\n\n".join(map(table, found)), "; ".join(weak))


def plan(context: CheckContext) -> Check:
    """Show what is left of the windows of each account's plan, as its provider told it last."""
    with context.desk.store.read() as session:
        rows = quota_rows(session, context.settings, [RunKind.SCREEN])
    if not rows:
        return ok("no provider has told the windows of a plan yet")
    told = "; ".join(f"{row.account}: {row.said} ({', '.join(row.forecasts)})" for row in rows)
    if used_up := [row.account for row in rows if row.quota.resets_at(dt.datetime.now(dt.UTC)) is not None]:
        remedy = "runs wait until then; to go on at once name a substitute in DESK_SUBSTITUTES"
        return warn(f"{', '.join(used_up)} is used up: {told}", remedy)
    return ok(told)


def price(context: CheckContext) -> Check:
    """Show what a model in use costs; without a price there is no estimate of what a run costs."""
    settings = context.settings
    known, used = prices(settings.prices), [one for one in models_in_use(settings) if one.runtime != LOCAL]
    models = dict.fromkeys(model for one in used if one.provider(settings) != RULES_MODEL for model in one.models)
    found = {model: price_by_name(model, known) for model in models}
    if lacking := [model for model, usd in found.items() if usd is None]:
        entries = ";".join(f"{model}=INPUT/CACHED/OUTPUT" for model in lacking)
        return warn(
            f"no price of {', '.join(lacking)} is known (listed: {AS_OF}): its turns have no cost in dollars",
            f'set DESK_PRICES="{entries}", in USD a million tokens',
        )
    told = (f"{model} {usd}" + (f", listed {AS_OF}" if is_listed(model, usd) else "") for model, usd in found.items())
    return ok("; ".join(told) or "no model in use is billed")


def facts_now(context: CheckContext, model: str, seconds: float = ASK_SECONDS) -> ServerFacts:
    """Asked once in all checks of one call, and kept. Raises ServerAway, KeyRefused, WrongApi, ModelMissing,
    ModelServerError."""
    settings, url = context.settings, str(local_url(context.settings))
    key = settings.provider_key if settings.provider == LOCAL else None
    with _one:
        kept = known_facts(settings.home, url, model)
        if kept is not None and kept.asked_at >= context.began:
            return kept
        asked = ask_server(
            url, key.get_secret_value() if key else None, model, seconds=seconds, ca_file=settings.codex_ca_file
        )
        try:
            facts = asyncio.run(asked)
        except DeskError as error:
            error.remedy = settings_of_server(settings, error.remedy)
            raise
        keep_facts(settings.home, facts)
        return facts


def table(facts: ServerFacts) -> str:
    """Return what a server can do as lines of a label and a finding, with the reason where one is given."""
    program = facts.server if facts.server != "unknown" else "server of an unknown kind"
    version = f" {facts.version}" if facts.version else ""
    lines = [f"{facts.model} on {program}{version} at {masked(facts.url)}"]
    lines += [f"{label:<{WIDTH}}{finding}" for label, finding in _findings(facts).items()]
    return "\n".join(lines)


def _findings(facts: ServerFacts) -> dict[str, str]:
    why = facts.why
    found = {
        "answers": _with(_ANSWERS[facts.schema_way], why.get("schema_way")),
        "tools": _with(_TOOLS[facts.tool_way], why.get("tool_way")),
        "context": _with(_counted(facts.context, "token"), why.get("context")),
        "at once": _with(_counted(facts.slots, "turn"), why.get("slots")),
        "images": _with(_said(facts.images), why.get("images")),
        "reasoning": "yes" if facts.reasoning else "none seen" if facts.reasoning is False else "not found out",
        "streaming": _with(_said(facts.streaming), why.get("streaming")),
        "usage": _with(_said(facts.usage), why.get("usage")),
        "cache": _with(_said(facts.cached_tokens), why.get("cached_tokens")),
        "reads": _with(_speed(facts.read_speed), why.get("read_speed")),
        "writes": _with(_speed(facts.write_speed), why.get("write_speed")),
    }
    if facts.tool_way == "native":
        found["tools"] = _with(found["tools"], "in a dialect: " + "; ".join(facts.dialect) if facts.dialect else None)
        several = _with(_said(facts.parallel_tools), why.get("parallel_tools"))
        both = _with(_BESIDE[facts.beside], why.get("beside"))
        found = {
            "answers": found.pop("answers"),
            "tools": found.pop("tools"),
            "both": both,
            "parallel": several,
        } | found
    if facts.schema_way == "json_schema":
        kept = [*facts.keywords, *([f"enumerations of {facts.choices}"] if facts.choices else [])]
        found["bounds"] = _with(", ".join(kept) or "none", why.get("keywords"))
    return found | ({"model": why["model"]} if "model" in why else {})


def weaknesses(facts: ServerFacts, settings: Settings) -> list[str]:
    """Return what to do about each finding that makes answers worse or their limits blind."""
    found = []
    if facts.schema_way in ("json_object", "words"):
        found.append("answers may not fit their schema: a server that enforces one is llama.cpp, Ollama or vLLM")
    if facts.tool_way == "schema" and facts.schema_way != "json_schema":
        found.append("choose a model whose chat template has tools")
    if facts.context is None:
        found.append("its context is unknown, and longer prompts may be cut without a word: see the server's own log")
    if facts.streaming is False:
        found.append("without a stream DESK_FIRST_TOKEN_SECONDS is the limit of a whole answer")
    if facts.usage is False:
        found.append("without usage no budget of tokens holds")
    if "model" in facts.why:
        found.append(settings_of_server(settings, f"set DESK_MODEL={facts.models[0]}, so that another one is noticed"))
    if not facts.whole:
        found.append("the server is slow: what was not found out is done in the way that needs the least of it")
    return found


def _with(finding: str, reason: str | None) -> str:
    return f"{finding} ({reason})" if reason else finding


def _said(fact: bool | None) -> str:
    return "not found out" if fact is None else "yes" if fact else "no"


def _counted(number: int | None, noun: str) -> str:
    return "unknown" if number is None else f"{number:,} {noun}{'' if number == 1 else 's'}"


def _speed(speed: float | None) -> str:
    return "unknown" if speed is None else f"{speed:,.1f} tokens a second"


START_SECONDS = 10.0


class RequestMirror:
    """The server's base URL, and the tool names of every request it received."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}/v1"
        self.shown: list[list[str]] = []

    async def respond(self, request: Request) -> Response:
        body = await request.body()
        tools = orjson.loads(body).get("tools") or []
        self.shown.append([str(tool.get("name") or tool.get("type")) for tool in tools])
        return Response(answer(body), media_type="text/event-stream")


@contextmanager
def request_mirror() -> Iterator[RequestMirror]:
    """Yield a mirror that serves while the block runs. Raises ServiceError when it does not start."""
    port = free_ports(1)[0]
    mirror = RequestMirror(port)
    app = Starlette(routes=[Route("/v1/responses", mirror.respond, methods=["POST"])])
    config = uvicorn.Config(app, host=LOOPBACK, port=port, lifespan="off", ws="none", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="request-mirror", daemon=True)
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not server.started:
        if time.monotonic() > until or not thread.is_alive():
            raise ServiceError(f"no server could be started on {LOOPBACK}:{port}")
        time.sleep(0.02)
    try:
        yield mirror
    finally:
        server.should_exit = True
        thread.join(5)


# The turn is a screener's, on a thread that is not kept.
ROLE = replace(ROLES["screener_technical"], keeps_thread=False)
SYMBOLS = 3
GRACE_SECONDS = 2.0
SLOW_SECONDS = 10.0  # of a turn that failed, from which on its time is worth a word
_UNEXPECTED = "try again; if it stays so, report it with this message"

_LARGER = (
    "serve the model with a larger context (llama-server -c, OLLAMA_CONTEXT_LENGTH, vLLM --max-model-len), or choose "
    "one that has more"
)
REMEDIES = {
    "login_missing": LoginMissing.remedy,
    "binary_missing": BinaryMissing.remedy,
    "unauthorized": "check DESK_PROVIDER_KEY",
    "not_found": ModelMissing.remedy,
    "bad_request": ModelMissing.remedy,
    "unreachable": "check DESK_PROVIDER_URL and the network",
    "rate_limited": "wait, or raise the account's limit",
    "usage_limit": "wait for the limit's reset, as runs do, or name a substitute in DESK_SUBSTITUTES",
    "no_credit": "pay the provider or change the plan: this does not pass by itself; or choose another provider",
    "limit_wait": "raise DESK_LIMIT_WAIT_HOURS, or name a substitute in DESK_SUBSTITUTES",
    "invalid_output": "choose a model that follows a JSON schema: DESK_MODEL",
    "no_first_token": RAISE["first_token"],
    "silent": RAISE["silence"],
    "length": f"{RAISE['output']}; a model that writes without end needs another DESK_MODEL",
    "endless_calls": "choose a model that ends with an answer: DESK_MODEL",
    "timeout": f"{RAISE['turn']}; DESK_STEP_DEADLINE_SECONDS above it",
    "context_window": _LARGER,
    "stream_cut": "see the log of the provider or server: it broke off its answer",
    "overloaded": "wait until the provider or server is ready, then try again",
    "server_error": "see the log of the provider or server, then try again",
}


def tools_shown(context: CheckContext) -> Check:
    """Check that the binary's own request has exactly the role's tools, name for name."""
    wanted = sorted(tool.name for tool in ROLE.tools)
    with request_mirror() as mirror:
        change = {
            "provider": "rulebook",
            "rulebook_url": mirror.url,
            "role_models": "",
            "voice_models": "",
            "substitutes": "",
        }
        done = one_turn(context, change, "doctor-tools")
    if not mirror.shown:
        return _failed(context.settings, done)
    wrong = next((sorted(shown) for shown in mirror.shown if sorted(shown) != wanted), None)
    if wrong is not None:
        extra, lost = sorted(set(wrong) - set(wanted)), sorted(set(wanted) - set(wrong))
        detail = f"the model sees other tools than the role's: extra {extra}, missing {lost}"
        return fail(detail, "use the pinned openai-codex-cli-bin; unset DESK_CODEX_BINARY")
    return ok(f"the model sees exactly {', '.join(wanted)}")


def model(context: CheckContext) -> Check:
    """One real turn; a server is looked at before, as it may have no API for it."""
    settings = context.settings
    asked = role_models(settings)[ROLE.key]
    if asked.runtime == LOCAL:
        facts_now(context, asked.model)
    else:
        require_provider(settings)
    began = time.monotonic()
    done = one_turn(context, {}, "doctor")
    seconds = time.monotonic() - began
    outcome = done.outcome
    answered = f"{asked.label(settings)} answered in {seconds:.1f} s"
    if isinstance(outcome, Completed):
        calls = "1 tool call" if len(done.calls) == 1 else f"{len(done.calls)} tool calls"
        return ok(f"{answered}: {calls}, {_spent(done)}")
    if isinstance(outcome, Refused):
        detail = f"{answered} and declined: {outcome.text[:200]}"
        return warn(detail, "a refusal is final; another DESK_MODEL may help")
    return _failed(settings, done, seconds)


def _spent(done: RoleRun) -> str:
    counted = [turn.total_tokens for turn in done.turns if turn.total_tokens is not None]
    if not counted:
        return "its provider gives no count of tokens"
    written = sum(turn.output_tokens or 0 for turn in done.turns)
    seconds = sum((turn.finished_at - turn.started_at).total_seconds() for turn in done.turns)
    pace = f", {written:,} of them written at {written / seconds:,.1f} a second" if written and seconds >= 1 else ""
    return f"{sum(counted):,} tokens{pace}"


def one_turn(context: CheckContext, change: dict[str, str], name: str) -> RoleRun:
    """One screener turn in app-servers of its own, without admission: the check is for the model alone."""
    settings = context.settings.model_copy(update=change)
    desk = Desk(settings, name, records=False)
    symbols = resolve_universe(settings.universe, desk.market)[:SYMBOLS]
    brief = screener_subject("technical", 0, symbols, settings)
    job = Assignment(run_id="doctor", step_id="doctor", attempt=1, role=ROLE, subject=name, brief=brief)
    # The turn belongs to no run with a market of its own: its tools see the market of these settings.
    runner = Runner(desk.runtimes(), settings, lambda _run_id: desk.tool_context())
    try:
        return desk.loop.submit(runner.run(job)).result()
    finally:
        desk.close(GRACE_SECONDS)


def _failed(settings: Settings, done: RoleRun, seconds: float | None = None) -> Check:
    outcome = done.outcome
    if not isinstance(outcome, Failed):
        return fail(f"the turn ended as {outcome.outcome}", "try again")
    remedy = REMEDIES.get(outcome.kind, _UNEXPECTED)
    if outcome.kind == "unauthorized" and settings.provider == "codex":
        remedy = LoginMissing.remedy
    after = f" (after {seconds:.0f} s, {_spent(done)})" if seconds is not None and seconds >= SLOW_SECONDS else ""
    message = without_remedy(outcome.message, remedy)
    return fail(f"{outcome.kind}: {message}{after}", remedy)


def without_remedy(message: str, remedy: str) -> str:
    for known in (remedy, *RAISE.values()):
        if known in remedy:
            message = message.replace(f" ({known})", "").removesuffix(f"; {known}")
    return message
