"""Checks of the model: one real turn of the provider, and exactly our tools in front of it."""

from __future__ import annotations

import time
from dataclasses import replace

from agents.roles import ROLES
from agents.runner import Assignment, RoleRun, Runner
from agents.screeners import screener_subject
from models.errors import BinaryMissing, LoginMissing, ModelMissing
from models.research import Completed, Failed, Refused
from models.settings import Settings
from tasks.bootstrap import Desk
from tasks.doctor.check import Check, Patient, Status
from tasks.doctor.glass import looking_glass
from tools.market.universe import resolve_universe
from tools.toolsets import TOOL_SETS

# The turn is a screener's, on a thread that is not kept.
ROLE = replace(ROLES["screener_technical"], keeps_thread=False)
SYMBOLS = 3
GRACE_SECONDS = 2.0

_REMEDIES = {
    "login_missing": LoginMissing.remedy,
    "binary_missing": BinaryMissing.remedy,
    "unauthorized": "check DESK_PROVIDER_KEY",
    "not_found": ModelMissing.remedy,
    "bad_request": ModelMissing.remedy,
    "unreachable": "check DESK_PROVIDER_URL and the network",
    "rate_limited": "wait, or raise the account's limit",
    "usage_limit": "wait for the limit's reset, or choose another provider",
    "invalid_output": "choose a model that follows a JSON schema: DESK_MODEL",
}


def tools_shown(patient: Patient) -> Check:
    """The binary's own request shows the model the role's tools, name for name, and nothing else."""
    wanted = sorted(TOOL_SETS[ROLE.tools])
    with looking_glass() as glass:
        done = _turn(patient, {"provider": "rulebook", "rulebook_url": glass.url}, "doctor-tools")
    if not glass.shown:
        return _failed("tools", patient.settings, done)
    wrong = next((sorted(shown) for shown in glass.shown if sorted(shown) != wanted), None)
    if wrong is not None:
        extra, lost = sorted(set(wrong) - set(wanted)), sorted(set(wanted) - set(wrong))
        detail = f"the model sees other tools than the role's: too many {extra}, missing {lost}"
        return Check("tools", Status.FAIL, detail, "use the pinned openai-codex-cli-bin; unset DESK_CODEX_BINARY")
    return Check("tools", Status.OK, f"the model sees exactly {', '.join(wanted)}")


def model(patient: Patient) -> Check:
    """The provider in force answers one real turn."""
    began = time.monotonic()
    done = _turn(patient, {}, "doctor")
    seconds = time.monotonic() - began
    outcome = done.outcome
    said = f"{patient.settings.spoken_by} answered in {seconds:.1f} s"
    if isinstance(outcome, Completed):
        tokens = sum(turn.total_tokens for turn in done.turns)
        return Check("model", Status.OK, f"{said}: {len(done.calls)} tool calls, {tokens:,} tokens")
    if isinstance(outcome, Refused):
        detail = f"{said} and declined: {outcome.text[:200]}"
        return Check(
            "model", Status.WARN, detail, "a refusal is recorded, never argued with; another DESK_MODEL may help"
        )
    return _failed("model", patient.settings, done)


def _turn(patient: Patient, change: dict[str, str], name: str) -> RoleRun:
    """One screener turn on a few symbols, in app-servers of its own that end with it.

    No admission: what is asked is whether the model answers, be Redis away or the model parked.
    """
    settings = patient.settings.model_copy(update=change)
    desk = Desk(settings, name)
    symbols = resolve_universe(settings.universe, desk.market)[:SYMBOLS]
    brief = screener_subject("technical", 0, symbols, settings)
    job = Assignment(run_id="doctor", step_id="doctor", attempt=1, role=ROLE, subject=name, brief=brief)
    try:
        return desk.loop.submit(Runner(desk.runtime, settings, desk.tool_context).run(job)).result()
    finally:
        desk.close(GRACE_SECONDS)


def _failed(name: str, settings: Settings, done: RoleRun) -> Check:
    outcome = done.outcome
    if not isinstance(outcome, Failed):
        return Check(name, Status.FAIL, f"the turn ended as {outcome.outcome}", "try again")
    remedy = _REMEDIES.get(outcome.kind, "see the worker's log in the home")
    if outcome.kind == "unauthorized" and settings.provider == "codex":
        remedy = LoginMissing.remedy
    message = outcome.message.replace(f" ({remedy})", "")  # an error's own text may end with it
    return Check(name, Status.FAIL, f"{outcome.kind}: {message}", remedy)
