"""`desk chat`: people who ask and answer from a messenger."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.models.text import utc_seconds
from chordesk.tasks.cli.output import emit, paragraph, print_line, table
from chordesk.tasks.cli.shell import Json, looks, opened, whoami

if TYPE_CHECKING:
    import datetime as dt

    from chordesk.models.messengers.tables import MessengersPerson

commands = typer.Typer(name="chat", help="People who ask and answer from a messenger.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the person, as the record has it.")]
_SPAN = re.compile(r"([1-9]\d{0,3})([mhd])")
_COLUMNS = ("Name", "Messenger", "May", "Quiet", "Since", "State")


@commands.command()
def pair(
    name: Name,
    scope: Annotated[
        list[str],
        typer.Option(help="read, start, decide, halt or stop (runs), several with commas; each reads."),
    ],
    quiet: Annotated[str | None, typer.Option(help="Quiet hours of this person: HH:MM-HH:MM, or off.")] = None,
    wake: Annotated[bool, typer.Option("--wake", help="Orders that would expire pass through quiet hours.")] = False,
    morning: Annotated[str | None, typer.Option(help="HH:MM of a message before each session; 'HH:MM daily'.")] = None,
    messenger: Annotated[str, typer.Option(help="The messenger.")] = "telegram",
) -> None:
    """Print a code for a person's private chat with the bot: good once, for ten minutes."""
    from chordesk.models.messengers.tables import MessengersBot
    from chordesk.models.settings.schema import MESSENGERS
    from chordesk.tasks.messengers.morning import parsed
    from chordesk.tasks.messengers.people import CODE_LIFE, Scope, make_code

    wanted = [part.strip() for one in scope for part in one.split(",") if part.strip()]
    if wrong := [one for one in wanted if one not in list(Scope)]:
        raise UsageError(f"--scope {wrong[0]!r} is none", remedy=f"choose among {', '.join(Scope)}")
    if messenger not in MESSENGERS:
        raise UsageError(f"there is no messenger {messenger!r}", remedy=f"choose among {', '.join(MESSENGERS)}")
    hour = parsed(morning) if morning is not None else None
    settings, store = opened()
    with store.session() as session:
        code = make_code(
            session, settings, messenger, name, [Scope(one) for one in wanted], whoami(), quiet=quiet, wake=wake,
            morning=hour,
        )  # fmt: skip
        bot = session.get(MessengersBot, messenger)
    whom = f"@{bot.name}" if bot is not None and bot.name else "the desk's bot"
    minutes = CODE_LIFE.total_seconds() / 60
    print_line(f"in a private chat with {whom}, within {minutes:g} minutes: {MESSENGERS[messenger].sign}pair {code}")


@commands.command("list")
@looks("nobody is paired yet")
def list_people(as_json: Json = False) -> None:
    """List people, and codes that wait for their use; no code is shown."""
    from chordesk.tasks.messengers import people

    with opened()[1].read() as session:
        rows, codes = people.listed(session), people.pending_codes(session)
    plain: list[dict[str, Any]] = [row.model_dump(exclude={"user", "chat"}) for row in rows]
    plain += [{**code.model_dump(exclude={"digest"}), "name": code.person} for code in codes]
    shown = [_row(row) for row in rows]
    shown += [
        (paragraph(code.person), code.messenger, ", ".join(code.scopes), code.quiet or "", utc_seconds(code.created_at),
         f"code, until {utc_seconds(code.expires_at)}")
        for code in codes
    ]  # fmt: skip
    emit(plain, lambda _: table(_COLUMNS, shown) if shown else "nobody is paired", as_json=as_json)


@commands.command()
def revoke(name: Name) -> None:
    """End a person's pairing, and codes for it; what waits to be sent is dropped."""
    from chordesk.tasks.messengers import people

    settings, store = opened()
    with store.session() as session:
        people.revoke(session, settings, name, whoami())
    print_line(f"{name} is not paired any more")


@commands.command()
def mute(name: Name, span: Annotated[str, typer.Argument(help="Such as 30m, 2h or 1d; off ends it.")]) -> None:
    """Hold back what is written to a person; halts and unknown orders pass."""
    from chordesk.tasks.messengers import people

    until = until_of(span)
    with opened()[1].session() as session:
        people.mute(session, name, until)
    print_line(f"{name} is muted until {utc_seconds(until)}" if until else f"{name} is not muted")


@commands.command()
def morning(name: Name, at: Annotated[str, typer.Argument(metavar="HH:MM", help="Or 'HH:MM daily', or off.")]) -> None:
    """Write to a person before each session what became of the desk since."""
    from chordesk.tasks.messengers import people
    from chordesk.tasks.messengers.morning import parsed

    hour = parsed(at)
    settings, store = opened()
    with store.session() as session:
        people.set_morning(session, name, hour)
    print_line(f"{name} is told at {hour}, {settings.notify_zone}" if hour else f"{name} gets no morning message")


def until_of(span: str) -> dt.datetime | None:
    """Return the end of a span from now on, None for off. Raises UsageError."""
    import datetime as dt

    from chordesk.models.tables.columns import utcnow

    if span == "off":
        return None
    found = _SPAN.fullmatch(span)
    if found is None:
        raise UsageError(f"{span!r} is no span", remedy="write such as 30m, 2h, 1d, or off")
    minutes = int(found[1]) * {"m": 1, "h": 60, "d": 1440}[found[2]]
    if minutes > 30 * 1440:
        raise UsageError(f"{span} is more than 30 days", remedy="revoke the person, or mute for less")
    return utcnow() + dt.timedelta(minutes=minutes)


def _row(row: MessengersPerson) -> tuple[str, ...]:
    from chordesk.models.tables.columns import utcnow

    state = "paired"
    if row.revoked_at is not None:
        state = f"revoked {utc_seconds(row.revoked_at)}"
    elif row.blocked_at is not None:
        state = f"has blocked the bot since {utc_seconds(row.blocked_at)}"
    elif row.muted_until is not None and row.muted_until > utcnow():
        state = f"muted until {utc_seconds(row.muted_until)}"
    morning_ = f"told at {row.morning}" if row.morning else ""
    quiet = " ".join(filter(None, (row.quiet, "wakes for orders" if row.wake else "", morning_)))
    return paragraph(row.name), row.messenger, ", ".join(row.scopes), quiet, utc_seconds(row.created_at), state
