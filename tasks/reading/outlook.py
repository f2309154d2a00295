"""The view of what a run that begins may spend and take: budgets, prices, the last run of its kind, and on local models
the time."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import sqlalchemy
from pydantic import computed_field
from sqlmodel import Session, col, func, select

from chordesk.agents.desk_roles import roles_in
from chordesk.agents.prompting import CALLS, SMALLEST_ANSWER, SYMBOL_DATA, shard_size, smallest_tokens
from chordesk.agents.role import Role
from chordesk.agents.role_models import (
    LOCAL,
    RoleModel,
    account_of,
    facts_of,
    models_in_use,
    role_models,
    turns_at_once,
)
from chordesk.models.answers import Frozen
from chordesk.models.groups import by_key
from chordesk.models.model_prices import LOCAL as LOCAL_LABEL
from chordesk.models.model_prices import NO_PRICE, Price, model_of, price_by_name, price_of, prices
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Run, Turn
from chordesk.tasks.engine.budgets import RULES, BudgetUse, Cost, usage_of_budgets
from chordesk.tasks.engine.kinds import turns_of
from chordesk.tasks.reading.plan_windows import quota_rows

LAST_TURNS = 2_000  # of the desk, among which a role's own are looked for
# Written in a turn of a role that has had none: an answer of the stand-in's length and two calls of tools. What a model
# reasons is not in it.
ASSUMED_WRITTEN = 500


class TurnTokens(NamedTuple):
    """Tokens of one turn: read (without cached ones), written, and read from a cache. usd: what the runtime knew it to
    cost; n: turns of which these are the medians."""

    read: float
    written: float
    cached: float = 0.0
    usd: float | None = None
    n: int = 0

    def usd_of(self, price: Price | None) -> float | None:
        if self.usd is not None or price is None:
            return self.usd
        return price.of(round(self.read + self.cached), round(self.cached), round(self.written))


class LocalTime(Frozen):
    """How long the turns of a run take on one local model, at the measured speed.

    model: label. turns: at the most. at_once: in flight. read, written: tokens of them all. speeds: tokens a second of
    one call, None where they were not measured, at `measured`; seconds: None then. assumed: roles of which no turn is
    known yet. context: in tokens, None where it is not known. symbols: of a screener's turn, where the context has room
    for fewer than are set.
    """

    model: str
    turns: int
    at_once: int
    read: int
    written: int
    read_speed: float | None
    write_speed: float | None
    measured: dt.date | None
    seconds: float | None
    assumed: list[str]
    context: int | None
    symbols: int | None


class Outlook(Frozen):
    """What a run may spend. prices: text by model, None where it is unknown; empty for rules, which are not a model.
    last_tokens, last_cost: of the last run of this kind that has ended, None before the first. local: by local model.
    seconds: of all local models together, None where one's is not known, or none is used; allowed: that the run may
    take."""

    kind: str
    budgets: list[BudgetUse]
    prices: dict[str, str | None]
    last_tokens: int | None
    last_cost: Cost | None
    local: list[LocalTime] = []
    seconds: float | None = None
    allowed: float


class Spending(Frozen):
    """What a run that is asked for may come to at the most, by earlier turns of the same roles on the same models.

    rules: turns of the rulebook, which nobody bills; unknown: turns whose role had none on its model before, `lacking`
    has the roles by model. tokens and cost are those of all other turns, by the medians of `earlier` turns;
    plan: some of them are paid by the plan of a login, and cost so much over the API; fits: whether the run fits the
    plans of its accounts, as far as their windows are known.
    """

    turns: int
    rules: int
    unknown: int
    lacking: dict[str, list[str]]
    tokens: int
    cost: Cost
    plan: bool
    earlier: int
    fits: list[str] = []

    @property
    def asks_models(self) -> bool:
        return self.turns > self.rules

    @computed_field  # type: ignore[prop-decorator]
    @property
    def said(self) -> str:
        """The forecast in one line."""
        if not self.turns:
            return "no turn of a model"
        of_rules = "of rules, which are no model: no cost"
        most = f"at most {self.turns:,} turns" if self.turns > 1 else "at most one turn"
        if not self.asks_models:
            return f"{most} {of_rules}"
        parts = [most]
        parts += [f"{self.rules:,} {of_rules}"] if self.rules else []
        if self.earlier:
            basis = f"medians of {self.earlier:,} earlier turns" if self.earlier > 1 else "of one earlier turn"
            plan = "paid by the plan of the login, over the API " if self.plan else ""
            parts.append(f"about {self.tokens:,} tokens, {plan}{self.cost} ({basis})")
        if self.unknown:
            which = "all" if self.unknown == self.turns else f"{self.unknown:,}"
            none = (f"{model} as {', '.join(roles)}" for model, roles in self.lacking.items())
            parts.append(f"unknown for {which}: no earlier turn of {' or of '.join(none)}")
        return "; ".join([*parts, *self.fits])


def spending(session: Session, settings: Settings, run: Run) -> Spending:
    """Return what a run that is not written yet may come to. settings: of this process."""
    settings = in_run(settings, run.settings, run.account)
    roles = roles_in(settings)
    turns = {role: count for role, count in _turns(session, settings, run).items() if role in roles and count}
    past, known, models = past_tokens(session), prices(settings.prices), role_models(settings)
    rules, unknown, tokens, earlier = 0, 0, 0.0, 0
    lacking, usd, unpriced, local, plan = dict[str, list[str]](), list[float](), dict[str, None](), False, False
    for role, count in turns.items():
        label, provider = models[role].label(settings), models[role].provider(settings)
        if provider == RULES:
            rules += count
        elif (one := past.get((label, role))) is None:
            unknown += count
            lacking.setdefault(label, []).append(role)
        else:
            tokens += count * (one.read + one.cached + one.written)
            earlier += one.n
            local |= label.startswith(LOCAL_LABEL)
            plan |= provider == "codex"  # by its login
            if (each := one.usd_of(price_of(label, known))) is None:
                unpriced[model_of(label)] = None
            else:
                usd.append(count * each)
    return Spending(
        turns=sum(turns.values()),
        rules=rules,
        unknown=unknown,
        lacking=lacking,
        tokens=round(tokens),
        cost=Cost(usd=round(sum(usd), 6) if usd else None, unpriced=sorted(unpriced), local=local),
        plan=plan,
        earlier=earlier,
        fits=_fits(session, settings, run.kind, [models[role] for role in turns]),
    )


def _fits(session: Session, settings: Settings, kind: str, models: Sequence[RoleModel]) -> list[str]:
    own = {account_of(settings, one): one for one in models if one.provider(settings) != RULES}
    if not own:
        return []
    known = {row.account: row for row in quota_rows(session, settings, [kind])}
    said = [f"{account}: {text}" for account in own if account in known for text in known[account].forecasts]
    of_login = [account for account, one in own.items() if one.provider(settings) == "codex" and account not in known]
    return [
        *said,
        *(f"{account}: unknown whether its plan has room, it has not told its windows" for account in of_login),
    ]


def _turns(session: Session, settings: Settings, run: Run) -> Mapping[str, int]:
    held = session.exec(select(func.count()).select_from(Position).where(Position.account == run.account)).one()
    return turns_of(run.kind, run.params, settings, held)


def outlook(session: Session, settings: Settings, run: Run) -> Outlook:
    """Return what the run may spend and take. settings: of this process; the run's own are in their place."""
    settings = in_run(settings, run.settings, run.account)
    known = prices(settings.prices)
    used = [one for one in models_in_use(settings) if one.provider(settings) != RULES]
    texts = {one.label(settings): NO_PRICE for one in used if one.runtime == LOCAL}
    models = dict.fromkeys(model for one in used if one.runtime != LOCAL for model in one.models)
    ended = (Run.kind == run.kind, col(Run.id) < run.id, col(Run.finished_at).is_not(None))
    last = session.exec(select(Run.summary).where(*ended).order_by(col(Run.id).desc()).limit(1)).first() or {}
    local = local_times(settings, _turns(session, settings, run), past_tokens(session)) if texts else []
    return Outlook(
        kind=run.kind,
        budgets=list(usage_of_budgets(session, settings, run.id)),
        prices={**{model: str(price) if (price := price_by_name(model, known)) else None for model in models}, **texts},
        last_tokens=last.get("tokens"),
        last_cost=Cost.model_validate(last["cost"]) if "cost" in last else None,
        local=local,
        seconds=seconds_of(local),
        allowed=(run.deadline_at - run.created_at).total_seconds(),
    )


def seconds_of(local: list[LocalTime]) -> float | None:
    """Return the time of all local models together: they wait for each other where they share a server."""
    known = [one.seconds for one in local if one.seconds is not None]
    return sum(known) if local and len(known) == len(local) else None


def local_times(
    settings: Settings, turns: Mapping[str, int], past: Mapping[tuple[str, str], TurnTokens]
) -> list[LocalTime]:
    """How long so many turns of each role take, by model. past: tokens of a turn by model's label and role."""
    by_model: dict[RoleModel, dict[str, int]] = defaultdict(dict)
    roles, models = roles_in(settings), role_models(settings)
    for role, count in turns.items():
        if role in roles and count and models[role].runtime == LOCAL:
            by_model[models[role]][role] = count
    return [_time(settings, model, counts, past) for model, counts in by_model.items()]


def _time(
    settings: Settings, model: RoleModel, counts: Mapping[str, int], past: Mapping[tuple[str, str], TurnTokens]
) -> LocalTime:
    roles = roles_in(settings)
    facts, label, turns = facts_of(settings, model), model.label(settings), sum(counts.values())
    tokens = {role: _tokens(settings, label, roles[role], past) for role in counts}
    read = sum(tokens[role][0].read * count for role, count in counts.items())
    written = sum(tokens[role][0].written * count for role, count in counts.items())
    limit, slots = turns_at_once(settings, model) or 1, facts.slots if facts is not None else None
    at_once = min(limit, slots or limit, turns)
    speeds = (facts.read_speed, facts.write_speed) if facts is not None else (None, None)
    seconds = (read / speeds[0] + written / speeds[1]) / at_once if speeds[0] and speeds[1] else None
    sizes = [shard_size(roles[role], settings) for role in counts if roles[role].mode == "screener"]
    return LocalTime(
        model=label,
        turns=turns,
        at_once=at_once,
        read=round(read),
        written=round(written),
        read_speed=speeds[0],
        write_speed=speeds[1],
        measured=facts.asked_at.date() if facts is not None and seconds is not None else None,
        seconds=seconds,
        assumed=[role for role in counts if tokens[role][1]],
        context=facts.context if facts is not None else None,
        symbols=min(sizes) if sizes and min(sizes) < settings.shard_size else None,
    )


def _tokens(
    settings: Settings, label: str, role: Role, past: Mapping[tuple[str, str], TurnTokens]
) -> tuple[TurnTokens, bool]:
    found = past.get((label, role.key)) or next((one for (_, key), one in past.items() if key == role.key), None)
    return (found, False) if found is not None else (assumed_tokens(role, settings), True)


def assumed_tokens(role: Role, settings: Settings) -> TurnTokens:
    """Tokens of a role that had no turn: a prompt on one symbol, two tool calls, and of a screener one call a
    symbol."""
    calls = shard_size(role, settings) * SYMBOL_DATA if role.mode == "screener" else CALLS if role.tools else 0
    prompt = smallest_tokens(role, settings) - SMALLEST_ANSWER - (CALLS if role.tools else 0)
    return TurnTokens(prompt + calls, ASSUMED_WRITTEN)


def past_tokens(session: Session) -> dict[tuple[str, str], TurnTokens]:
    """Return the medians of what models read and wrote in a turn, by the model's label and the role."""
    names = ("model", "role", "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")
    columns = [getattr(Turn, name) for name in names]
    of_models = col(Turn.provider) != RULES, col(Turn.outcome) == "completed"
    counted = col(Turn.input_tokens).is_not(None), col(Turn.output_tokens).is_not(None)
    query = sqlalchemy.select(*columns).where(*of_models, *counted).order_by(col(Turn.id).desc()).limit(LAST_TURNS)
    found = by_key(((row.model, row.role), row) for row in session.execute(query))
    return {key: _medians(rows) for key, rows in found.items()}


def _medians(rows: Sequence[Any]) -> TurnTokens:
    cached = [min(row.cached_input_tokens or 0, row.input_tokens) for row in rows]
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return TurnTokens(
        read=median(row.input_tokens - own for row, own in zip(rows, cached, strict=True)),
        written=median(row.output_tokens for row in rows),
        cached=median(cached),
        usd=median(costs) if costs else None,
        n=len(rows),
    )
