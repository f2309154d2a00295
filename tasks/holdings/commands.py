"""`desk holdings`: accounts at other brokers, which the desk looks at and never trades."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from chordesk.models.errors import DeskError, UsageError
from chordesk.models.files import expanded
from chordesk.models.settings.schema import BROKERS
from chordesk.models.settings.sources import load_settings
from chordesk.models.settings.variables import secret
from chordesk.models.text import one_line
from chordesk.tasks.cli.output import emit, print_line, warn
from chordesk.tasks.cli.shell import Json, database, day_of, looks, make_own, opened

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.models.statements import Read
    from chordesk.tools.holdings.keeping import Plan
    from chordesk.tools.holdings.sheets import Hints
    from chordesk.tools.registry import ToolContext

commands = typer.Typer(name="holdings", help="Accounts at other brokers: import, show, forget them.")
NOTHING = "no account of another broker is known"
Rates = Annotated[list[str] | None, typer.Option("--rate", help="US dollars for one of a currency, such as EUR=1.08.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the account though it seems another one.")]
Also = Annotated[bool, typer.Option("--also", help="Keep it though it seems to be there under another name.")]
Yes = Annotated[bool, typer.Option("--yes", help="Write it without asking.")]
Name = Annotated[str | None, typer.Argument(metavar="ACCOUNT", help="One account; all of them by default.")]


@commands.callback(invoke_without_command=True)
def holdings(context: typer.Context, as_json: Json = False) -> None:
    """List the accounts at other brokers: how old each is, and what of it has no price."""
    if context.invoked_subcommand is None:
        list_(as_json=as_json)


@commands.command("list")
@looks(NOTHING, answered=False)
def list_(as_json: Json = False) -> None:
    """List the accounts at other brokers: how old each is, and the names that need a ticker."""
    from chordesk.tasks.holdings.display import account_lines, account_rows
    from chordesk.tools.holdings.keeping import accounts

    settings, store = opened()
    with store.read() as session:
        found = accounts(session)
    rows = account_rows(found, settings)
    emit(rows, lambda _: account_lines(rows) if rows else f"{NOTHING}: desk holdings import FILE", as_json=as_json)


@commands.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="An export of a broker, or a table with symbol and quantity.")],
    account: Annotated[str | None, typer.Option("--account", help="The account's name here.")] = None,
    as_of: Annotated[str | None, typer.Option(help="The day of the holdings, where the file does not say it.")] = None,
    only: Annotated[str | None, typer.Option("--format", help="The file's format, where it is not recognised.")] = None,
    decimal: Annotated[
        str | None, typer.Option(help="The decimal mark, . or , where the file does not show it.")
    ] = None,
    days: Annotated[
        str | None, typer.Option(help="Order of days: dmy, mdy or ymd, where the file does not show it.")
    ] = None,
    rate: Rates = None,
    from_activity: Annotated[
        bool, typer.Option("--from-activity", help="Sum the rows of a file that lists what happened.")
    ] = False,
    without_total: Annotated[bool, typer.Option("--without-total", help="Take a file whose total is missing.")] = False,
    replace: Replace = False,
    also: Also = False,
    yes: Yes = False,
) -> None:
    """Read the holdings of an account at another broker, show them, and keep them once you agree.

    The desk never trades them. They make its own sizes smaller where the whole would hold too much of one thing.
    """
    from chordesk.tools.holdings.reading import read_file

    settings = load_settings()
    hints = _hints(as_of, decimal, days, without_total=without_total)
    read = read_file(expanded(file), hints, from_activity=from_activity, only=only, rates=_rates(rate or []))
    make_own(settings)
    _agree_and_keep(settings, read, account, {"--replace": replace, "--also": also}, yes=yes)


@commands.command()
def refresh(
    source: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE...", help="Sources; by default all whose keys are set, and linked desks."),
    ] = None,
    account: Annotated[str | None, typer.Option("--account", help="The name here of one source's account.")] = None,
    rate: Rates = None,
    replace: Replace = False,
    also: Also = False,
    yes: Yes = False,
) -> None:
    """Read accounts at other brokers by keys that can only read, which this shell has and no process of the desk.

    Linked desks are read anew too. With --yes, cron can run it. One that does not answer keeps no other from it.
    """
    from chordesk.tools.holdings.keeping import linked_homes
    from chordesk.tools.holdings.linking import read_home
    from chordesk.tools.holdings.refreshing import chosen, read_source

    settings, rates = load_settings(), _rates(rate or [])
    make_own(settings)
    with database(settings).read() as session:
        linked = linked_homes(session)
    names = chosen(source or [], os.environ, linked)
    if account is not None and len(names) > 1:
        raise UsageError("--account is of one source", remedy=f"name one of: {', '.join(names)}")
    failed = 0
    for name in names:
        try:
            if name in linked:
                home, is_linked = linked[name]
                read, kept_as = read_home(Path(home), settings.home, None, rates, is_linked), name
            else:
                read, kept_as = read_source(name, os.environ, rates), account or ""
            _agree_and_keep(settings, read, kept_as or None, {"--replace": replace, "--also": also}, yes=yes)
        except DeskError as error:
            if len(names) == 1:
                raise
            failed += 1
            warn([f"{name}: {error}"])
    if failed:
        raise typer.Exit(1)


@commands.command()
def link(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="The folder of another desk, its DESK_HOME.")],
    of: Annotated[str | None, typer.Option("--of", help="Which account of it, where it has several.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="The account's name here.")] = None,
    rate: Rates = None,
    also: Also = False,
    yes: Yes = False,
) -> None:
    """Look at the account of another desk on this machine; its database is read, and nothing of it is changed.

    `desk holdings refresh` reads it anew.
    """
    from chordesk.tools.holdings.linking import read_home

    settings = load_settings()
    read = read_home(expanded(home), settings.home, of, _rates(rate or []))
    make_own(settings)
    name = account or expanded(home).resolve().name.lstrip(".")
    _agree_and_keep(settings, read, name, {"--replace": False, "--also": also}, yes=yes)


def own_numbers(environ: Mapping[str, str]) -> list[str]:
    """Return what identifies the accounts that this desk may trade, as far as this shell knows it."""
    names = {name for broker in BROKERS.values() for name in broker.credentials[:1]}
    return [value for name in sorted(names) if (value := secret(environ, name))]


def _agree_and_keep(settings: Settings, read: Read, account: str | None, said: dict[str, bool], *, yes: bool) -> None:
    from chordesk.tasks.holdings.display import plan_lines
    from chordesk.tools.holdings.keeping import keep, plans

    store = database(settings)
    with store.read() as session:
        found = plans(session, read, account, settings.account, own_numbers(os.environ))
    for line in plan_lines(read, found):
        print_line(line)
    if all(one.same for one in found):
        print_line(f"imported already, as {', '.join(one.name for one in found)}: nothing is to be done")
        return
    _require_sure(found, said)
    if not yes and not _agreed():
        print_line("nothing was written")
        return
    with store.session() as session:
        keep(session, read, found)
    for one in found:
        count = len(one.statement.holdings)
        print_line(f"{one.name}: {count} holding{'s' * (count != 1)} as of {one.statement.as_of} kept")


def _hints(as_of: str | None, decimal: str | None, days: str | None, *, without_total: bool) -> Hints:
    from chordesk.tools.holdings.sheets import Hints

    if decimal not in (None, ".", ","):
        raise UsageError(f"--decimal {decimal!r} is no decimal mark", remedy="give . or ,")
    if days not in (None, "dmy", "mdy", "ymd"):
        raise UsageError(f"--days {days!r} is no order of days", remedy="give dmy, mdy or ymd")
    mark = cast("Literal['.', ','] | None", decimal)
    order = cast("Literal['dmy', 'mdy', 'ymd'] | None", days)
    return Hints(mark, order, day_of("--as-of", as_of) if as_of else None, without_total)


def _rates(given: list[str]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for text in given:
        currency, mark, number = text.partition("=")
        try:
            rate = Decimal(number)
        except InvalidOperation:
            rate = Decimal(0)
        if not mark or len(currency) != 3 or not currency.isalpha() or not rate.is_finite() or rate <= 0:
            raise UsageError(
                f"--rate {one_line(text, 20)!r} is no rate", remedy="write EUR=1.08, US dollars for one euro"
            )
        found[currency.upper()] = rate
    return found


def _require_sure(found: list[Plan], said: dict[str, bool]) -> None:
    """Raise UsageError for what speaks against an import and was not overruled."""
    for plan in found:
        for option, why in plan.doubts.items():
            if not said[option]:
                raise UsageError(f"{why}; nothing was written", remedy=f"if it is meant so, add {option}")
    warn(why for plan in found for why in plan.doubts.values())


def _agreed() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("nobody agreed to it: nothing was written", remedy="look at the lines above; add --yes")
    return typer.confirm("keep it?", default=True)


@commands.command("map")
def map_(
    written: Annotated[str, typer.Argument(metavar="NAME", help="A symbol, ISIN or name as the file has it.")],
    ticker: Annotated[str | None, typer.Argument(help="What the market calls it.")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Take the ticker back.")] = False,
) -> None:
    """Say what a name of files is called at the market."""
    from chordesk.models.answers import spelled
    from chordesk.tools.holdings.keeping import give_ticker

    if (ticker is None) != forget:
        raise UsageError("a name needs a ticker, or --forget", remedy="desk holdings map US0378331005 AAPL")
    _, store = opened()
    with store.session() as session:
        count = give_ticker(session, written, None if ticker is None else spelled(ticker))
    what = "has no ticker any more" if ticker is None else f"is {spelled(ticker)}"
    print_line(f"{one_line(written, 60)} {what}; {count} holding{'s' * (count != 1)} of it")


@commands.command("forget")
def forget_(
    account: Annotated[list[str] | None, typer.Argument(metavar="ACCOUNT...", help="The accounts.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All accounts at other brokers.")] = False,
) -> None:
    """Delete what is kept of an account at another broker. Backups made before still have it."""
    from chordesk.tools.holdings.keeping import forget, names, require_names

    if bool(account) == every:
        raise UsageError("name the accounts, or say --all", remedy="`desk holdings` lists them")
    _, store = opened()
    with store.session() as session:
        require_names(session, account or ())
        gone = names(session) if every else list(account or ())
        count = forget(session, gone)
    print_line(f"forgotten: {', '.join(gone) or 'nothing'} ({count} holdings); backups made before still have it")


@commands.command()
@looks(NOTHING, as_json="null", answered=False)
def show(as_json: Json = False) -> None:
    """Show all accounts as one portfolio, at the market's prices of now."""
    from chordesk.tasks.holdings.display import view_lines
    from chordesk.tools.holdings.portfolio_view import portfolio_view

    with looking() as (context, stale):
        found = portfolio_view(context, stale)
    emit(found, lambda _: view_lines(found), as_json=as_json)


@commands.command("what-if")
def what_if(
    symbol: Annotated[str, typer.Argument(help="The symbol of the order.")],
    amount: Annotated[
        float, typer.Argument(metavar="MONEY", help="Money in the account's currency to buy; with --sell, to sell.")
    ],
    sell: Annotated[bool, typer.Option("--sell", help="Sell in place of buying.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an order would do to the whole, and the most that the whole leaves for it."""
    from chordesk.models.answers import spelled
    from chordesk.tasks.holdings.display import effect_lines
    from chordesk.tools.holdings.portfolio_view import portfolio_view, unknown_sectors
    from chordesk.tools.holdings.whole_book import room_for

    if not 0 < amount < 1e12:
        raise UsageError(f"{amount:g} is no amount of money", remedy="give a number above 0")
    name, moved = spelled(symbol), -amount if sell else amount
    with looking() as (context, stale):
        before, after = portfolio_view(context, stale), portfolio_view(context, stale, (name, moved))
        room = None if sell else room_for(context, name)
    most = "not known" if room is None else f"{room[0]:,.2f} ({room[1]})"
    line = "" if sell else f"the most that the whole book leaves for it: {most}"
    if not sell and context.settings.max_sector_share < 1 and (unknown := unknown_sectors(before)):
        line += f"\nshares of unknown sector, {unknown:.2%} of the whole now, count in every sector"
    value = {
        "before": before.model_dump(mode="json"),
        "after": after.model_dump(mode="json"),
        "most": None if room is None else room[0],
    }
    emit(value, lambda _: effect_lines(before, after, name, moved, line), as_json=as_json)


@contextmanager
def looking() -> Iterator[tuple[ToolContext, int]]:
    """Yield the account's market of now as tools see it, and the sessions after which holdings are old."""
    from chordesk.models.holdings.settings import HoldingsSettings
    from chordesk.models.settings.schema import own_settings
    from chordesk.tasks.bootstrap import Desk

    settings, store = opened()
    store.close()
    with closing(Desk(settings, "holdings", records=False)) as desk:
        market = desk.account_market()
        context = dataclasses.replace(desk.tool_context(), market=market, clock=market.clock)
        yield context, own_settings(settings, HoldingsSettings).stale_sessions
