"""`desk schedule`: the runs that start by themselves, and at what time of an exchange day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.exchanges import clock_of
from chordesk.models.text import utc_seconds
from chordesk.tasks.cli.output import emit, paragraph, print_line, table
from chordesk.tasks.cli.shell import Json, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.tasks.schedules import Entry

commands = typer.Typer(
    name="schedule", help="Runs that start by themselves, at a time of each exchange day.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="Name of the entry, such as premarket.")]
Time = Annotated[str, typer.Argument(help="HH:MM where the exchange is, or open+15m, close-30m.")]
Place = Annotated[
    str | None, typer.Option(help="Exchange of the time and the days, by code or city; otherwise the desk's own.")
]
Kind = Annotated[str, typer.Option(help="The kind of run that it starts.")]


@commands.command("list")
@looks("no schedule yet")
def list_entries(as_json: Json = False) -> None:
    """List the schedule: the settings' entries and those of people."""
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.read() as session:
        rows = schedules.entries(session, settings)
    plain = [row.model_dump(mode="json") for row in rows]
    emit(
        plain,
        lambda _: (
            table(
                ("Name", "Starts", clock_of(settings.exchange), "State", "From"), (_row(row, settings) for row in rows)
            )
            if rows
            else "nothing is scheduled"
        ),
        as_json=as_json,
    )


@commands.command()
def add(name: Name, at: Time, kind: Kind = "screen", exchange: Place = None) -> None:
    """Add an entry of your own. The run is of the desk's exchange, whichever gives the time."""
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.session() as session:
        _print(schedules.add(session, settings, name, kind, at, whoami(), exchange))


@commands.command("set")
def set_time(name: Name, at: Time) -> None:
    """Change the time of an entry, also of one that the settings have."""
    _change(name, at=at)


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


def _change(name: str, at: str | None = None, enabled: bool | None = None) -> None:
    from chordesk.tasks import schedules

    settings, store = opened()
    with store.session() as session:
        _print(schedules.change(session, settings, name, whoami(), at, enabled))


def _print(entry: Entry) -> None:
    from chordesk.tasks.schedules import shown_time

    when = shown_time(entry.at, entry.exchange)
    state = "" if entry.enabled else ", off"
    print_line(f"{entry.name}: {entry.kind} at {when}{state}; beat takes it over within seconds")


def _row(entry: Entry, settings: Settings) -> tuple[str, ...]:
    from chordesk.tasks.schedules import elsewhere

    source = f"{paragraph(entry.by)}, {utc_seconds(entry.changed_at)}" if entry.changed_at else str(entry.setting)
    state = "off" if not entry.enabled else "on" if entry.lack is None else f"starts nothing: {entry.lack}"
    return entry.name, entry.kind, elsewhere(entry, settings) or entry.at, state, source.replace("None, ", "")
