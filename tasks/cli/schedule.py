"""`desk schedule`: the runs that start by themselves, on what days and at what time of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from chordesk.models.errors import DeskError, UsageError
from chordesk.models.exchanges import clock_of
from chordesk.models.text import one_line, utc_seconds
from chordesk.tasks.cli.output import emit, paragraph, print_line, table
from chordesk.tasks.cli.shell import Json, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.tasks.schedules import Entry

commands = typer.Typer(
    name="schedule", help="Runs that start by themselves, at a time of each exchange day.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="Name of the entry, such as premarket.")]
TIME_HELP = "HH:MM where the exchange is, or open+15m, close-30m."
Time = Annotated[str, typer.Argument(help=TIME_HELP)]
NewTime = Annotated[str | None, typer.Argument(help=TIME_HELP)]
Place = Annotated[
    str | None, typer.Option(help="Exchange of the time and the days, by code or city; otherwise the desk's own.")
]
Kind = Annotated[str, typer.Option(help="The kind of run that it starts.")]
DAYS_HELP = "sessions, mon,wed, week-first, week-last, month-first, month-last, or a date."
Days = Annotated[str, typer.Option(help=DAYS_HELP)]
NewDays = Annotated[str | None, typer.Option("--days", help=DAYS_HELP)]
Field = Annotated[
    list[str] | None,
    typer.Option("--set", help="NAME=VALUE of what POST /runs takes, as in symbols=AAPL,MSFT; repeat it for several."),
]
FORECAST_SECONDS = 5.0  # for all that are asked for
Forecast = Annotated[bool, typer.Option("--forecast", help="Say what each run may cost; looks at the market.")]


@commands.command("list")
@looks("no schedule yet")
def list_entries(forecast: Forecast = False, as_json: Json = False) -> None:
    """List the schedule: the settings' entries and those of people."""
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.read() as session:
        rows = schedules.entries(session, settings)
    costs = _forecasts(settings, rows) if forecast else {}
    plain = [row.model_dump(mode="json") | ({"forecast": costs[row.name]} if forecast else {}) for row in rows]
    heads = ("Name", "Starts", "Days", clock_of(settings.exchange), "State", "From")
    emit(
        plain,
        lambda _: (
            Group(
                table(heads, (_row(row, settings) for row in rows)),
                *(f"{name}: {said}" for name, said in costs.items()),
            )
            if rows
            else "nothing is scheduled"
        ),
        as_json=as_json,
    )


@commands.command()
def add(
    name: Name,
    at: Time,
    kind: Kind = "screen",
    exchange: Place = None,
    days: Days = "sessions",
    given: Field = None,
) -> None:
    """Add an entry of your own: any run that a person may start, with what it takes.

    The run is of the desk's exchange, whichever gives the time.
    """
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.session() as session:
        entry = schedules.add(session, settings, name, kind, at, whoami(), exchange, days, given or ())
    _print(entry)
    print_line(f"forecast of each: {_forecasts(settings, [entry])[name]}")


@commands.command("set")
def set_time(name: Name, at: NewTime = None, days: NewDays = None, given: Field = None) -> None:
    """Change the time, the days or what an entry takes, also of one that the settings have."""
    if at is None and days is None and not given:
        raise UsageError("nothing to change is given", remedy="give a time, --days or --set NAME=VALUE")
    _change(name, at=at, days=days, given=given)


@commands.command()
def on(name: Name) -> None:
    """Switch an entry on."""
    _change(name, enabled=True)


@commands.command()
def off(name: Name) -> None:
    """Switch an entry off; it stays listed."""
    _change(name, enabled=False)


@commands.command()
def remove(name: Name) -> None:
    """Remove an entry; one that the settings have is as they say again."""
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.session() as session:
        left = schedules.remove(session, settings, name, whoami())
    print_line(f"{name} is removed" if left is None else f"{name} is at {left.at} again, as {left.setting} says")


def _change(
    name: str,
    at: str | None = None,
    enabled: bool | None = None,
    days: str | None = None,
    given: list[str] | None = None,
) -> None:
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.session() as session:
        wanted = schedules.Change(at=at, enabled=enabled, days=days, given=given)
        _print(schedules.change(session, settings, name, whoami(), wanted))


def _forecasts(settings: Settings, rows: list[Entry]) -> dict[str, str]:
    """Return what a run of each entry may come to, or why that is not known now, by the entry's name. What is not read
    in some seconds is not waited for: the entries are written."""
    from contextvars import copy_context
    from threading import Thread

    found: dict[str, str] = {}
    reading = Thread(target=copy_context().run, args=(_forecast, settings, rows, found), daemon=True)
    reading.start()
    reading.join(FORECAST_SECONDS)
    late = f"not known: it took longer than {FORECAST_SECONDS:g} seconds"
    return {row.name: found.get(row.name, late) for row in rows}


def _forecast(settings: Settings, rows: list[Entry], found: dict[str, str]) -> None:
    """Plan a run of each entry, by an app that sends nothing and so needs no Redis."""
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.engine import requests
    from chordesk.tasks.reading.outlook import spending
    from chordesk.tasks.worker.messages import DeskApp
    from chordesk.tasks.workflows.runs import planned

    app = DeskApp("forecast", broker="memory://", set_as_current=False)
    app.desk = Desk(settings, "cli")
    for row in rows:
        try:
            run = planned(app, requests.made(row.kind, row.request or {}, f"schedule {row.name}"))
            with app.desk.store.read() as session:
                found[row.name] = spending(session, app.desk.settings, run).said
        except DeskError as error:
            found[row.name] = f"not known: {error}"


def _print(entry: Entry) -> None:
    from chordesk.tasks.schedule_days import shown_days
    from chordesk.tasks.schedules import outside, shown_time

    when = f"{shown_time(entry.at, entry.exchange)}, {shown_days(entry.days)}"
    state = "" if entry.enabled else ", off"
    print_line(f"{entry.name}: {entry.said} at {when}{state}; beat takes it over within seconds")
    if (said := outside(entry)) is not None:
        print_line(f"note: {said}")


def _row(entry: Entry, settings: Settings) -> tuple[str, ...]:
    from chordesk.tasks.schedules import elsewhere

    source = f"{paragraph(entry.by)}, {utc_seconds(entry.changed_at)}" if entry.changed_at else str(entry.setting)
    state = "off" if not entry.enabled else "on" if entry.lack is None else f"starts nothing: {entry.lack}"
    when = elsewhere(entry, settings) or entry.at
    return entry.name, one_line(entry.said, 60), entry.days, when, state, source.replace("None, ", "")
