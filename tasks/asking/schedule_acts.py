"""Changes of the schedule that may be proposed. What it starts makes no order, as of `acts.py`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from sqlmodel import Session

from chordesk.models.errors import NotFound, UsageError
from chordesk.tasks import schedules
from chordesk.tasks.asking.acts import Id, Start, Text, listed, without_orders, word_start
from chordesk.tasks.asking.wishes import scheduling
from chordesk.tasks.proposals import (
    Confirmed,
    Office,
    Proposable,
    ProposalArguments,
    ProposalCard,
    ProposalOutcome,
    ProposalScope,
)
from chordesk.tasks.schedule_days import EVERY, shown_days

Name = Annotated[str, StringConstraints(pattern=f"^{schedules.NAME_RULE}$")]


class ScheduleChange(ProposalArguments):
    """A change of the schedule. run, at, days and symbols: of an entry that is added."""

    do: Literal["add", "on", "off", "remove"]
    name: Name
    run: Text | None = None
    at: Annotated[str, StringConstraints(max_length=20)] | None = None
    days: Annotated[str, StringConstraints(max_length=60)] = EVERY
    symbols: list[Id] = Field(default_factory=list, max_length=20)


def _word_schedule(office: Office, asked: ScheduleChange) -> ProposalCard:
    if asked.do == "add":
        return _word_entry(office, asked)
    with office.store.read() as session:
        known = {one.name: one for one in schedules.entries(session, office.settings)}
    entry = known.get(asked.name)
    if entry is None:
        remedy = f"it has {', '.join(known) or 'nothing'}: `desk schedule list`"
        raise NotFound(f"the schedule has no {asked.name!r}", remedy=remedy)
    if asked.do == "remove" and entry.setting is not None and entry.changed_at is None:
        reason = f"{asked.name} is of the setting {entry.setting}"
        raise UsageError(reason, remedy="switch it off, or change the setting")
    words = {"on": "switch on", "off": "switch off", "remove": "remove"}
    when = schedules.shown_time(entry.at, entry.exchange)
    return ProposalCard(
        title=f"{words[asked.do]} the schedule's {asked.name}",
        lines=[f"{entry.said} at {when}, {shown_days(entry.days)}; it is {'on' if entry.enabled else 'off'}"],
        arguments={"do": asked.do, "name": asked.name},
    )


def _word_entry(office: Office, asked: ScheduleChange) -> ProposalCard:
    if asked.run is None or asked.at is None:
        raise UsageError(
            "the entry has no kind of run or no time", remedy="such as: run a screen every day at open+15m"
        )
    with office.store.read() as session:
        entry = schedules.addable(session, office.settings, *_added(asked), days=asked.days, given=_fields(asked))
    forecast = word_start(office, Start(run=asked.run, symbols=asked.symbols))
    when = schedules.shown_time(asked.at, office.settings.exchange)
    return ProposalCard(
        title=f"add {asked.name} to the schedule: {asked.run} at {when}, {shown_days(entry.days)}",
        lines=[f"of {listed(asked.symbols)}" if asked.symbols else "of the desk's own symbols", *forecast.lines[-1:]],
        cost=f"each run, {forecast.cost}", arguments=asked.model_dump(),
    )  # fmt: skip


def _schedule(session: Session, office: Office, act: Confirmed) -> ProposalOutcome:
    asked: ScheduleChange = act.arguments
    settings, name = office.settings, asked.name
    if asked.do == "add":
        entry = schedules.add(session, settings, *_added(asked, act.by), days=asked.days, given=_fields(asked))
        return ProposalOutcome(f"{name} is added: {entry.said} at {entry.at}, {shown_days(entry.days)}")
    if asked.do == "remove":
        left = schedules.remove(session, settings, name, act.by)
        return ProposalOutcome(
            f"{name} is removed" if left is None else f"{name} is at {left.at} again, as {left.setting} says"
        )
    change = schedules.Change(enabled=asked.do == "on")
    schedules.change(session, settings, name, act.by, change)
    return ProposalOutcome(f"{name} is {asked.do}")


def _added(asked: ScheduleChange, by: str = "a proposal") -> tuple[str, str, str, str]:
    return asked.name, asked.run or "", asked.at or "", by


def _fields(asked: ScheduleChange) -> list[str]:
    fields = without_orders(asked.run or "", asked.symbols, {})
    return [f"{field}={_written(value)}" for field, value in fields.items()]


def _written(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def _bound_schedule(session: Session, office: Office, asked: ScheduleChange) -> dict[str, str]:
    entry = next((one for one in schedules.entries(session, office.settings) if one.name == asked.name), None)
    state = "none" if entry is None else f"{entry.said} at {entry.at}, {entry.days}, {'on' if entry.enabled else 'off'}"
    return {f"the schedule's {asked.name}": state}


SCHEDULE = Proposable(
    ProposalScope.OPERATE, ScheduleChange, _word_schedule, act=_schedule, bound=_bound_schedule, read=scheduling,
    names=("symbols",),
)  # fmt: skip
