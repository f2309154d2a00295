"""Checks of the model: one real turn of the provider, and exactly our tools in front of it."""

from __future__ import annotations

import time
from dataclasses import replace

from chordesk.agents.pulse import RAISE
from chordesk.agents.role_models import LOCAL, models_in_use, role_models
from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, RoleRun, Runner
from chordesk.agents.subjects import screener_subject
from chordesk.models.answers import Completed, Failed, Refused
from chordesk.models.errors import BinaryMissing, LoginMissing, ModelMissing
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.doctor.mirror import request_mirror
from chordesk.tasks.doctor.servers import facts_now, require_endpoint
from chordesk.tools.market.universe import resolve_universe

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
    "usage_limit": "wait for the limit's reset, or choose another provider",
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


_LITELLM_REMEDIES = {
    **REMEDIES,
    "unauthorized": "set the key in the provider's own variable, where the desk is started",
    "unreachable": "check the network, and the provider's own variable for its address",
    "not_found": "name a model that the provider has, in DESK_ROLE_MODELS",
    "bad_request": "name another model in DESK_ROLE_MODELS",
    "invalid_output": "name a model that follows a JSON schema, in DESK_ROLE_MODELS",
    "length": f"{RAISE['output']}; a model that writes without end needs another one in DESK_ROLE_MODELS",
}


def tools_shown(context: CheckContext) -> Check:
    """Check that the binary's own request has exactly the role's tools, name for name."""
    wanted = sorted(tool.name for tool in ROLE.tools)
    with request_mirror() as mirror:
        change = {"provider": "rulebook", "rulebook_url": mirror.url, "role_models": "", "voice_models": ""}
        done = _turn(context, change, "doctor-tools")
    if not mirror.shown:
        return _failed("tools", context.settings, done)
    wrong = next((sorted(shown) for shown in mirror.shown if sorted(shown) != wanted), None)
    if wrong is not None:
        extra, lost = sorted(set(wrong) - set(wanted)), sorted(set(wanted) - set(wrong))
        detail = f"the model sees other tools than the role's: extra {extra}, missing {lost}"
        return Check("tools", CheckStatus.FAIL, detail, "use the pinned openai-codex-cli-bin; unset DESK_CODEX_BINARY")
    return Check("tools", CheckStatus.OK, f"the model sees exactly {', '.join(wanted)}")


def model(context: CheckContext) -> Check:
    """Check that the provider in force answers one real turn; a server is looked at before, as it may have no API for
    it."""
    settings = context.settings
    asked = role_models(settings)[ROLE.key]
    if asked.runtime == LOCAL:
        facts_now(context, asked.model)
    elif settings.provider == "endpoint":
        require_endpoint(settings)
    began = time.monotonic()
    done = _turn(context, {}, "doctor")
    seconds = time.monotonic() - began
    outcome = done.outcome
    answered = f"{asked.label(settings)} answered in {seconds:.1f} s"
    if isinstance(outcome, Completed):
        calls = "1 tool call" if len(done.calls) == 1 else f"{len(done.calls)} tool calls"
        return Check("model", CheckStatus.OK, f"{answered}: {calls}, {_spent(done)}")
    if isinstance(outcome, Refused):
        detail = f"{answered} and declined: {outcome.text[:200]}"
        return Check("model", CheckStatus.WARN, detail, "a refusal is final; another DESK_MODEL may help")
    return _failed("model", settings, done, seconds)


def _spent(done: RoleRun) -> str:
    """Return the tokens of a turn, and how many it wrote a second, over all of its time."""
    counted = [turn.total_tokens for turn in done.turns if turn.total_tokens is not None]
    if not counted:
        return "its provider gives no count of tokens"
    written = sum(turn.output_tokens or 0 for turn in done.turns)
    seconds = sum((turn.finished_at - turn.started_at).total_seconds() for turn in done.turns)
    pace = f", {written:,} of them written at {written / seconds:,.1f} a second" if written and seconds >= 1 else ""
    return f"{sum(counted):,} tokens{pace}"


def litellm(context: CheckContext) -> Check:
    """Check that each model that a role names for the LiteLLM runtime answers one real turn."""
    used = [one for one in models_in_use(context.settings) if one.runtime == "litellm"]
    models = dict.fromkeys(model for one in used for model in one.models)
    if not models:
        return Check("litellm", CheckStatus.OK, "no role uses it")
    for model in models:
        every = ";".join(f"{role}=litellm:{model}" for role in ROLES)  # so that no other runtime starts
        done = _turn(context, {"role_models": every, "voice_models": ""}, "doctor-litellm")
        if isinstance(done.outcome, Failed):
            remedy = _LITELLM_REMEDIES.get(done.outcome.kind, "check DESK_ROLE_MODELS")
            detail = f"{model}: {done.outcome.kind}: {_without(done.outcome.message, remedy)}"
            return Check("litellm", CheckStatus.FAIL, detail, remedy)
    return Check("litellm", CheckStatus.OK, f"answered: {', '.join(models)}")


def _turn(context: CheckContext, change: dict[str, str], name: str) -> RoleRun:
    """Run one screener turn on a few symbols, in app-servers of its own that end with it, and return its result.

    No admission: the check is for the model alone, even if Redis is away or the model parked.
    """
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


def _failed(name: str, settings: Settings, done: RoleRun, seconds: float | None = None) -> Check:
    outcome = done.outcome
    if not isinstance(outcome, Failed):
        return Check(name, CheckStatus.FAIL, f"the turn ended as {outcome.outcome}", "try again")
    remedy = REMEDIES.get(outcome.kind, _UNEXPECTED)
    if outcome.kind == "unauthorized" and settings.provider == "codex":
        remedy = LoginMissing.remedy
    after = f" (after {seconds:.0f} s, {_spent(done)})" if seconds is not None and seconds >= SLOW_SECONDS else ""
    message = _without(outcome.message, remedy)
    return Check(name, CheckStatus.FAIL, f"{outcome.kind}: {message}{after}", remedy)


def _without(message: str, remedy: str) -> str:
    """Return a failure's message without the remedy that it may end with."""
    for known in (remedy, *RAISE.values()):
        if known in remedy:
            message = message.replace(f" ({known})", "").removesuffix(f"; {known}")
    return message
