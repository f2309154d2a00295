"""The check of model servers: what each can do for a model of the desk, and in which way the desk will do it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

from chordesk.agents.gateway.facts import SchemaWay, ServerFacts, ToolWay, keep_facts, known_facts
from chordesk.agents.gateway.probe import ask_server, look_at_endpoint
from chordesk.agents.role_models import LOCAL, local_url, models_in_use, models_of
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.urls import masked
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus

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
_TOOLS: Mapping[ToolWay, str] = {
    "native": "the server's own tool calls",
    "schema": "put into the answer's schema",
}
_BESIDE = {
    True: "together",
    False: "tools first; an answer that does not fit is asked for again with the schema",
    None: "not found out",
}


def server(context: CheckContext) -> Check:
    """Check what the server of each local model can do, or that an endpoint's URL has a Responses API."""
    settings = context.settings
    models, url = models_of(models_in_use(settings), LOCAL), local_url(settings)
    if settings.provider == "endpoint":
        require_endpoint(settings)
    if not models or url is None:
        detail = f"{masked(str(settings.provider_url))} has a Responses API" if settings.provider == "endpoint" else ""
        return Check("server", CheckStatus.OK, detail or "no role uses a model server")
    found = [facts_now(context, model, max(ASK_SECONDS / len(models), LEAST_SECONDS)) for model in models]
    weak = dict.fromkeys(text for facts in found for text in weaknesses(facts, settings))
    status = CheckStatus.WARN if weak else CheckStatus.OK
    return Check("server", status, "\n\n".join(map(table, found)), "; ".join(weak))


def require_endpoint(settings: Settings) -> None:
    """Raise WrongApi, KeyRefused or ServerAway for a URL without a Responses API."""
    key = settings.provider_key.get_secret_value() if settings.provider_key else None
    asyncio.run(look_at_endpoint(str(settings.provider_url), key, settings.codex_ca_file))


def facts_now(context: CheckContext, model: str, seconds: float = ASK_SECONDS) -> ServerFacts:
    """Return the facts of a local model, which are asked for once in all checks of one call, and kept.

    Raises ServerAway, KeyRefused, WrongApi, ModelMissing, ModelServerError, with the settings of this server named.
    """
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


def settings_of_server(settings: Settings, text: str) -> str:
    """Return a remedy that names the settings of the local server, which are others beside another provider."""
    if settings.provider == LOCAL:
        return text
    return text.replace("DESK_PROVIDER_URL", "DESK_LOCAL_URL").replace("DESK_MODEL", "DESK_ROLE_MODELS")


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
        several = _with(_said(facts.parallel_tools), why.get("parallel_tools"))
        both = _with(_BESIDE[facts.beside], why.get("beside"))
        found = {
            "answers": found.pop("answers"),
            "tools": found.pop("tools"),
            "both": both,
            "parallel": several,
        } | found
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
