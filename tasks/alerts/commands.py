"""`desk alerts`: be told, or have a run started, when something happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.tasks.cli.output import emit, print_line
from chordesk.tasks.cli.shell import Json, day_of, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.tools.market.protocol import MarketData

commands = typer.Typer(
    name="alerts", help="Be told, or have a run started, when something happens.", no_args_is_help=True
)
NOTHING = "no alert yet"
Name = Annotated[str, typer.Argument(help="Name of the alert, such as aapl-dip.")]
Maybe = Annotated[str | None, typer.Argument(help="Name of an alert; all of them by default.")]
When = Annotated[str, typer.Argument(help="A condition in words: 'price below 180', 'move 5%', 'headline merger'.")]
On = Annotated[
    str | None, typer.Argument(help="A symbol, watchlist:NAME, holdings or universe; the desk's own by default.")
]


@commands.command("list")
@looks(NOTHING)
def list_(as_json: Json = False) -> None:
    """List the alerts: what each is on, what it has seen, and how often it has fired."""
    from chordesk.tasks.alerts.display import alert_lines, alert_rows, left_alone

    _, store = opened()
    with store.read() as session:
        rows, away = alert_rows(session), left_alone(session)
    plain = [row.model_dump(mode="json") for row in rows]
    emit(plain, lambda _: alert_lines(rows, away) if rows else f"{NOTHING}: desk alerts add", as_json=as_json)


@commands.command()
def add(
    name: Name,
    when: When,
    on: On = None,
    lasting: Annotated[int, typer.Option("--for", help="Minutes for which a price has to hold.", min=0, max=1_950)] = 0,
    hours: Annotated[str, typer.Option(help="session, or always: also while its exchange is closed.")] = "session",
    rearm: Annotated[
        str, typer.Option(help="Fire again once it was outside, after a cooldown, or once in all.")
    ] = "outside",
    cooldown: Annotated[int, typer.Option(help="Minutes of --rearm cooldown.", min=1, max=43_200)] = 60,
    expires: Annotated[str | None, typer.Option(help="The last day on which it looks.")] = None,
    do: Annotated[
        str, typer.Option(help="notify, or a run that makes no order: research, analyze, screen.")
    ] = "notify",
    given: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of what POST /runs takes.")] = None,
    most: Annotated[int, typer.Option("--most-per-day", help="Runs that it starts in a UTC day.", min=0, max=100)] = 5,
) -> None:
    """Add an alert. Its first look arms it; it fires when what it is on crosses over.

    Conditions: price, move, volume, headline, earnings, rating, verdict, thesis, review, drawdown, spend, waiting,
    failed.
    """
    from chordesk.tasks.alerts.adding import add_alert
    from chordesk.tasks.alerts.firing import unnamed
    from chordesk.tools.alerts.keeping import Draft

    settings, store = opened()
    until = day_of("--expires", expires) if expires is not None else None
    draft = Draft(
        name=name, when=when, on=on, for_minutes=lasting, hours=hours, rearm=rearm, cooldown_minutes=cooldown,
        expires=until, action=do, most_per_day=most, by=whoami(),
    )  # fmt: skip
    with store.session() as session:
        row = add_alert(session, settings, draft, given or [], _market(settings))
    does = f"{row.action} ({said})" if (said := unnamed(row)) else row.action
    print_line(f"{row.name}: {row.condition} on {row.subject}; its first look arms it, and then it does {does}")


@commands.command()
@looks(NOTHING)
def show(name: Name, as_json: Json = False) -> None:
    """Show an alert with what it has seen of each symbol."""
    from chordesk.tasks.alerts.display import alert_row, alert_text
    from chordesk.tools.alerts.keeping import alert

    _, store = opened()
    with store.read() as session:
        row = alert_row(session, alert(session, name))
    emit(row.model_dump(mode="json"), lambda _: alert_text(row), as_json=as_json)


@commands.command()
def on(name: Name) -> None:
    """Switch an alert on; its first look arms it."""
    _switch(name, enabled=True)


@commands.command()
def off(name: Name) -> None:
    """Switch an alert off; it stays listed."""
    _switch(name, enabled=False)


def _switch(name: str, *, enabled: bool) -> None:
    from chordesk.tools.alerts.keeping import switch

    settings, store = opened()
    with store.session() as session:
        switch(session, settings, name, whoami(), enabled=enabled)
    print_line(f"{name} is {'on' if enabled else 'off'}")


@commands.command()
def remove(name: Name) -> None:
    """Remove an alert; its firings stay in the history."""
    from chordesk.tools.alerts import keeping

    settings, store = opened()
    with store.session() as session:
        keeping.remove(session, settings, name, whoami())
    print_line(f"{name} is removed; `desk alerts history {name}` has its firings")


@commands.command()
@looks("no alert has fired yet")
def history(
    name: Maybe = None,
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """List what fired, the newest first, and the runs that it started."""
    from chordesk.tasks.alerts.display import firing_lines, firing_rows

    _, store = opened()
    with store.read() as session:
        rows = firing_rows(session, name, limit)
    plain = [row.model_dump(mode="json") for row in rows]
    emit(plain, lambda _: firing_lines(rows) if rows else "no alert has fired yet", as_json=as_json)


@commands.command("test")
def try_(
    name: Name,
    first: Annotated[str, typer.Option("--from", help="The first session.")],
    last: Annotated[str | None, typer.Option("--to", help="The last session; the market's last by default.")] = None,
    as_json: Json = False,
) -> None:
    """Try an alert over past sessions: when it would have fired, and what followed. Starts no run."""
    from chordesk.tasks.alerts.display import trial_lines
    from chordesk.tools.alerts import keeping
    from chordesk.tools.alerts.past import tried

    settings, store = opened()
    market = _market(settings)
    begin, end = day_of("--from", first), day_of("--to", last) if last is not None else None
    with store.read() as session:
        row = keeping.alert(session, name)
        symbols = keeping.symbols_of(session, settings, row, market)
    found = tried(row, symbols, market, begin, end)
    emit(found.model_dump(mode="json"), lambda _: trial_lines(found), as_json=as_json)


def _market(settings: Settings) -> MarketData:
    from chordesk.tasks.bootstrap import Desk

    return Desk(settings, "cli").account_market()
