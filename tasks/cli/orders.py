"""Commands about orders: their list, the answers that they wait for, the rules, the audit log, and the comparison."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up, standing_of
from chordesk.models.settings.sources import load
from chordesk.models.states import ApprovalState, OrderState, TradingState
from chordesk.models.text import inert, utc_seconds
from chordesk.tasks.cli.output import console, emit, print_json, print_line, table
from chordesk.tasks.cli.shell import Json, desk_line, last, looks, opened, run_of, whoami

if TYPE_CHECKING:
    from chordesk.models.database.store import Store
    from chordesk.models.tables.orders import Reconciliation
    from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest
    from chordesk.tools.orders.audit_reading import CheckedChain

commands = typer.Typer()


# Before each line that the model wrote, so that none can look like the desk's own.
_MARGIN = "  | "
_MINUTES = 2 * 1440  # from so many on, time left is in days


def request_text(row: WaitingRequest) -> str:
    from chordesk.models.tables.columns import utcnow

    asked = row.approval
    minutes = (asked.expires_at - utcnow()) / dt.timedelta(minutes=1)
    until = f"{minutes:.0f} minutes" if minutes < _MINUTES else f"{minutes / 1440:.0f} days"
    left = f"{until} left" if minutes > 0 else "expired"
    head = f"request {asked.id}  {asked.role} asks for {asked.kind}, run {asked.run_id}, {left}"
    return "\n".join((head, *(_MARGIN + line for line in _quoted(_DETAILS[asked.kind](asked.detail)))))


def _quoted(parts: Iterator[str]) -> Iterator[str]:
    for part in parts:
        yield from inert(part).splitlines()


def _command(detail: Mapping[str, Any]) -> Iterator[str]:
    yield f"{detail['command']}"
    yield f"in {detail['cwd']}"
    yield from _others(detail, "reason", "permissions", "network")


def _file_change(detail: Mapping[str, Any]) -> Iterator[str]:
    for change in detail["changes"]:
        yield f"{change['change']} {change['path']}"
        yield change["diff"]
    yield from _others(detail, "reason", "root")


def _permissions(detail: Mapping[str, Any]) -> Iterator[str]:
    import orjson

    yield orjson.dumps(detail["permissions"]).decode()
    yield from _others(detail, "cwd", "reason")


def _user_input(detail: Mapping[str, Any]) -> Iterator[str]:
    for question in detail["questions"]:
        options = f" ({', '.join(question['options'])})" if question["options"] else ""
        yield f"{question['id']}: {question['question']}{options}"


def _interrupt(detail: Mapping[str, Any]) -> Iterator[str]:
    yield f"graph {detail['graph']}, node {detail['node']}"
    yield detail["asks"]
    if detail["questions"]:
        yield "approve it, by --answer answer=TEXT_OR_JSON if it asks for more than a yes, or deny it"


def _others(detail: Mapping[str, Any], *names: str) -> Iterator[str]:
    import orjson

    for name in names:
        value = detail.get(name)
        if value is not None:
            yield f"{name}: {value if isinstance(value, str) else orjson.dumps(value).decode()}"


_DETAILS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "command": _command,
    "file_change": _file_change,
    "permissions": _permissions,
    "user_input": _user_input,
    "interrupt": _interrupt,
}


COLUMNS = ("order", "symbol", "side", "quantity", "notional", "asked (UTC)", "minutes left", "payload hash")
TOO_LATE = NOT_APPROVED = 1

Id = Annotated[str, typer.Argument(help="Id of the order, of its approval or of the request, or its beginning.")]
Expect = Annotated[
    str | None,
    typer.Option(help="Hash of the preview you saw, at least 12 letters of it: another preview is refused."),
]


approvals_commands = typer.Typer(name="approvals")


@approvals_commands.callback(invoke_without_command=True)
@looks("nothing waits for approval yet")
def listing(context: typer.Context, as_json: Json = False) -> None:
    """List what waits for a person: orders, and requests of runs."""
    if context.invoked_subcommand is not None:
        return
    from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest, waiting
    from chordesk.tasks.cli.show.order_display import SHORT_ORDER
    from chordesk.tools.rogue_calls import note

    with opened()[1].read() as session:
        rows = waiting(session)
    if as_json:
        print_json([row.model_dump() for row in rows])
        return
    orders = [row for row in rows if isinstance(row, WaitingOrder)]
    if not rows:
        print_line("nothing waits for approval")
    if orders:
        console().print(table(COLUMNS, [_row(row) for row in orders]))
    for one in orders:
        if told := note(one.rogue):
            print_line(f"{one.order.id[:SHORT_ORDER]} rests on {told}")
    for row in rows:
        if isinstance(row, WaitingRequest):
            print_line(request_text(row))


@approvals_commands.command("show")
@looks("nothing waits for approval yet", as_json="null", answered=False)
def show_approval(id_: Id, as_json: Json = False) -> None:
    """Show a request: the reason, and what the order would do to the account."""
    from contextlib import closing

    from chordesk.tasks.approval_requests import WaitingOrder, asked_of
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.cli.show.order_display import effect_table
    from chordesk.tasks.reading.order_history import checks_now

    settings, store = opened()
    with store.read() as session:
        row = asked_of(session, id_)
    if not isinstance(row, WaitingOrder):
        emit(row.model_dump(), lambda _: request_text(row), as_json=as_json)
        return
    with closing(Desk(settings, "approvals", records=False)) as desk:
        effect = checks_now(store, settings, row.order.id, desk.order_market).effect
    if as_json:
        print_json({**row.model_dump(), "effect": effect})
        return
    console().print(table(COLUMNS, [_row(row)]))
    print_line(_reason_line(row))
    if effect is None:
        print_line(f"it is {row.order.state}: what it would do to the account is not known now")
    else:
        console().print(effect_table(effect))


@commands.command()
def approve(
    id_: Id,
    why: Annotated[str | None, typer.Option(help="A reason for the record.")] = None,
    answers: Annotated[list[str] | None, typer.Option("--answer", help="To a question: ID=TEXT.")] = None,
    expect: Expect = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not show it and ask, as a terminal does.")] = False,
) -> None:
    """Let an order, or what a run asks for, go ahead.

    The order goes to the broker as it was previewed. A terminal shows it and asks first; another preview than the one
    shown is then refused.
    """
    given = _by_question(answers or [])
    if expect is None and not yes and sys.stdin.isatty() and sys.stdout.isatty():
        expect = _confirmed(id_)
    _decide(id_, True, why, given, expect)


@commands.command()
def deny(id_: Id, why: Annotated[str, typer.Option(help="The reason, for the record.")], expect: Expect = None) -> None:
    """Refuse an order, or what a run asks for."""
    _decide(id_, False, why, {}, expect)


def _confirmed(id_: str) -> str | None:
    """Show what waits and ask; return the hash of the preview that was shown, None for a request of a run."""
    from chordesk.tasks.approval_requests import WaitingOrder, asked_of
    from chordesk.tasks.cli.show.order_display import terms_text
    from chordesk.tools.market.fx import traded_in

    with opened()[1].read() as session:
        row = asked_of(session, id_)
    if isinstance(row, WaitingOrder):
        console().print(table(COLUMNS, [_row(row)]))
        print_line(f"{terms_text(row.order, traded_in(row.order.symbol))}, account {row.order.account}")
        print_line(_reason_line(row))
    else:
        print_line(request_text(row))
    if row.approval.state == ApprovalState.PENDING and not typer.confirm("approve it?", default=False):
        raise typer.Exit(NOT_APPROVED)
    return row.approval.payload_hash if isinstance(row, WaitingOrder) else None


def _reason_line(row: WaitingOrder) -> str:
    from chordesk.tools.rogue_calls import note

    told = note(row.rogue)
    return f"reason: {inert(row.why) if row.why else 'none was given'}" + (f"; it rests on {told}" if told else "")


def _by_question(answers: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for given in answers:
        question, parted, text = given.partition("=")
        if not parted or not text:
            raise UsageError(f"{given!r} is no answer", remedy="give ID=TEXT; `desk approvals` shows the questions")
        found.setdefault(question, []).append(text)
    return found


def _decide(id_: str, yes: bool, why: str | None, answers: dict[str, list[str]], expect: str | None) -> None:
    from chordesk.tasks.approval_requests import answer
    from chordesk.tasks.worker.messages import WorkerNotifier
    from chordesk.tools.orders.submitting import ORDERS_SECONDS

    settings, store = opened()
    notify = WorkerNotifier(settings).trade
    found = answer(store, settings, notify, id_, approve=yes, by=whoami(), why=why, answers=answers, expect=expect)
    if found.state is ApprovalState.EXPIRED:
        print_line(found.too_late)
        raise typer.Exit(TOO_LATE)
    print_line(f"{found.subject} {found.state} by {found.by}")
    if yes and found.order is not None:
        when = "now" if found.notified else f"within {ORDERS_SECONDS:g} s of its worker being reachable"
        print_line(f"the trade queue submits it {when}; see: desk orders show {found.order}")
        if not found.notified and not _trades(settings):
            print_line("no worker that trades is seen to run: start the desk with `desk up`, or `desk worker trade`")


def _trades(settings: Settings) -> bool:
    from chordesk.tasks import life
    from chordesk.tasks.engine.kinds import WORKER_QUEUES

    trading = {role for role, queues in WORKER_QUEUES.items() if "trade" in queues.split(",")}
    return any(one.role in trading and one.state in life.ALIVE for one in life.of_desk(settings))


def _row(row: WaitingOrder) -> tuple[str, ...]:
    from chordesk.models.tables.columns import utcnow
    from chordesk.tasks.cli.show.amount_text import legs_text
    from chordesk.tools.decimals import money, plain

    order, asked = row.order, row.approval
    left = (asked.expires_at - utcnow()) / dt.timedelta(minutes=1)
    return (
        order.id,
        f"{order.symbol}: {legs_text(order.legs)}" if order.legs else order.contract or order.symbol,
        order.side or "",
        plain(order.quantity or 0),
        money(asked.notional, row.currency),
        f"{asked.asked_at:%Y-%m-%d %H:%M}",
        f"{left:.0f}" if left > 0 else "expired",
        asked.payload_hash[:12],
    )


orders_commands = typer.Typer(name="orders", help="What was recommended, and what became of it.", no_args_is_help=True)


@orders_commands.command("list")
@looks("no orders yet")
def list_(
    run: Annotated[str | None, typer.Option(help="Of this run: its id, or the beginning of it.")] = None,
    symbol: Annotated[str | None, typer.Option(help="On this symbol.")] = None,
    state: Annotated[OrderState | None, typer.Option(help="In this state.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1000)] = 20,
    every: Annotated[bool, typer.Option("--all", help="With the orders that were played on past days.")] = False,
    as_json: Json = False,
) -> None:
    """List orders, the newest first; those that were played on past days with --all or --run alone."""
    from chordesk.tasks.cli.show.order_display import order_list
    from chordesk.tasks.reading.order_history import list_orders
    from chordesk.tools.ledger import currency_of_account

    settings, store = opened()
    with store.read() as session:
        run_id = run_of(session, run).id if run else None
        ticker, wanted = symbol.strip().upper() if symbol else None, state.value if state else None
        own = None if every or run_id is not None else settings.account
        rows = list_orders(session, run_id, ticker, wanted, limit, but_backtests=own)
        currencies = {name: currency_of_account(session, name) for name in {order.account for order, _ in rows}}
    plain = [{**order.model_dump(), "notional_previewed": p.notional if p else None} for order, p in rows]
    nothing = "no such orders; every trading action of a decision makes one"
    nothing += "" if own is None else "; --all has those of backtests too"
    emit(plain, lambda _: order_list(rows, currencies) if rows else nothing, as_json=as_json)


@orders_commands.command()
@looks("no order yet", as_json="null")
def show(
    order: Annotated[
        str | None, typer.Argument(help="An order's id, or the beginning of it; else the last order.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show an order: size, checks, preview, approval, fills, and what it rests on."""
    from chordesk.models.database.lookup import by_prefix
    from chordesk.models.tables.orders import Order
    from chordesk.tasks.cli.show.order_display import order_report
    from chordesk.tasks.reading.order_history import newest_order, order_detail
    from chordesk.tools.orders.audit_reading import check_logs, entries_of

    settings, store = opened()
    with store.read() as session:
        wanted = order or last("order", newest_order(session, settings.account).id)
        found = order_detail(session, by_prefix(session, Order, wanted))
    entries = entries_of(check_logs(store, settings), found.order.id, found.order.created_at)
    whole = found.model_copy(update={"log": entries})
    emit(whole, lambda _: order_report(found, len(entries), settings.home), as_json=as_json)


NOT_WHOLE = 1
MOST_PROBLEMS = 20
With = Annotated[
    list[Path] | None, typer.Option("--with", help="A copy of another data folder's audit.jsonl.", dir_okay=False)
]

audit_commands = typer.Typer(
    name="audit", help="The log of every order: append-only, hash-chained, anchored.", no_args_is_help=True
)


@audit_commands.command()
@looks("nothing is on record yet", answered=False)
def verify(also: With = None, as_json: Json = False) -> None:
    """Read the whole log for altered, removed or cut-off lines; exit code 1 if there is one."""
    checked = _check(*opened(), also, whole=True)
    if as_json:
        print_json([_plain(one) for one in checked])
    else:
        _print_checks(checked)
    if not all(one.whole for one in checked):
        raise typer.Exit(NOT_WHOLE)


@audit_commands.command("show")
@looks("nothing is on record yet")
def show_log(
    order: Annotated[str | None, typer.Option(help="Show the history of this order: its id, or its beginning.")] = None,
    last: Annotated[int, typer.Option(help="Without --order: how many lines, the newest last.", min=1)] = 20,
    also: With = None,
    as_json: Json = False,
) -> None:
    """Show an order's history, or the last lines of the log."""
    from chordesk.models.database.lookup import by_prefix
    from chordesk.models.tables.orders import Order
    from chordesk.tasks.cli.show.order_display import log_table, order_history
    from chordesk.tasks.reading.order_history import order_detail
    from chordesk.tools.orders.audit_reading import entries_of, last_entries

    settings, store = opened()
    checked = _check(settings, store, also)
    if order is not None:
        with store.read() as session:
            found = order_detail(session, by_prefix(session, Order, order))
        entries = entries_of(checked, found.order.id, found.order.created_at)
        whole = found.model_copy(update={"log": entries})
        emit(whole, lambda _: order_history(found, entries), as_json=as_json)
    else:
        emit(last_entries(checked, last), log_table, as_json=as_json)
    if not all(one.whole for one in checked):
        typer.echo("the log is not whole, see: desk audit verify", err=True)


@audit_commands.command("accept")
def accept_break(
    line: Annotated[int, typer.Argument(help="The line of the break, as `desk audit verify` and the halt name it.")],
    reason: Annotated[str, typer.Option("--reason", help="What happened, for the record.")],
) -> None:
    """Go on from a break of the log that you have looked into.

    The break stays in the file, and the acceptance is on record. Accounts that it halted trade again.
    """
    from chordesk.tools.orders.audit_watch import accept

    settings, store = opened()
    names = accept(store, settings, line, reason, whoami())
    print_line(f"the break at line {line} is accepted, and on record; a change after this is a new break")
    for name in names:
        print_line(f"account {name} trades again")
    if not names:
        print_line("no account was halted for it alone; `desk resume` lets a halted one trade")


def _check(settings: Settings, store: Store, also: list[Path] | None, *, whole: bool = False) -> list[CheckedChain]:
    from chordesk.tools.orders.audit_reading import check_logs

    try:
        return check_logs(store, settings, also or [], whole=whole)
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}", remedy="give the path of a log"
        ) from None


def _print_checks(checked: list[CheckedChain]) -> None:
    if not checked:
        typer.echo("nothing is on record yet")
    for one in checked:
        state = "whole" if one.whole else "NOT WHOLE"
        typer.echo(f"{one.file or one.place}: {one.count} lines anchored, {state} (chain {one.chain[:12]})")
        if (by := one.accepted) is not None:
            told = f"accepted by {by.facts.get('by')} in line {by.n}: {by.facts.get('why')}"
            typer.echo(f"  {by.facts.get('problem')} ({told})")
        for problem in one.reading.problems[:MOST_PROBLEMS]:
            typer.echo(f"  {problem}")
        if len(one.reading.problems) > MOST_PROBLEMS:
            typer.echo(f"  and {len(one.reading.problems) - MOST_PROBLEMS} more (--json has them)")
        if one.reading.abandoned:
            typer.echo(f"  {one.reading.abandoned} lines struck out: their transactions did not commit")
        if one.reading.beyond:
            typer.echo(f"  {one.reading.beyond} lines beyond the anchor: not committed, or just being written")


def _plain(one: CheckedChain) -> dict[str, Any]:
    return {
        "chain": one.chain,
        "place": one.place,
        "file": str(one.file) if one.file else None,
        "lines": one.count,
        "whole": one.whole,
        "problems": one.reading.problems,
        "abandoned": one.reading.abandoned,
        "beyond": one.reading.beyond,
    }


risk_commands = typer.Typer(
    name="risk", no_args_is_help=True, help="The rules that every order passes before it is sent."
)


@risk_commands.command()
@looks("no limits yet")
def codes(as_json: Json = False) -> None:
    """List every denial code: what it refuses, if it binds exits, the limit in force."""
    from chordesk.tools.risk.codes import meanings

    loaded = load()
    home = loaded.settings.home
    rows = [(code.value, meaning, dict(meaning.limits(loaded.settings))) for code, meaning in meanings().items()]
    plain = [
        {"code": code, "denies": meaning.denies, "binds_exits": meaning.exits, "settings": limits}
        for code, meaning, limits in rows
    ]
    shown = [
        (code, meaning.denies, meaning.binds, " ".join(f"{name}={value}" for name, value in limits.items()))
        for code, meaning, limits in rows
    ]
    line = desk_line(standing_of(loaded.settings), home, running=loaded.running, held=is_up(home))
    emit(plain, lambda _: Group(table(("code", "denies", "binds", "limit"), shown), line), as_json=as_json)


DIFFERS = 1


@commands.command()
def reconcile(
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take positions, cash and past fills over as the broker has them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare positions, orders, fills and cash with the broker.

    Exit code 1 when they differ.
    """
    from chordesk.tools.brokers.protocol import build_broker
    from chordesk.tools.orders import halting
    from chordesk.tools.orders.accounts import account_market
    from chordesk.tools.orders.reconciliation import reconcile as compare

    settings, store = opened()
    broker = build_broker(settings, account_market(store, settings), store)
    found = compare(store, settings, broker, f"desk reconcile {whoami()}", adopt)
    with store.read() as session:
        trading = halting.trading_state(session, settings, found.account)
    plain = {**found.model_dump(), "trading": trading[0], "why": trading[1]}
    emit(plain, lambda _: "\n".join(_lines(found, *trading)), as_json=as_json)
    raise typer.Exit(0 if found.agreed else DIFFERS)


def _lines(found: Reconciliation, state: TradingState, why: str) -> Iterator[str]:
    from chordesk.tools.orders.reconciliation import describe_difference

    whether = "agrees with" if found.agreed else "differs from"
    yield f"account {found.account} {whether} its broker at {utc_seconds(found.at)}"
    for row in found.differences:
        yield f"  {'put right' if row['repaired'] else 'OPEN':9}  {describe_difference(row)}"
    if state is not TradingState.ACTIVE:
        yield f"trading is {state}: {why}"
    if found.agreed and state is TradingState.HALTED:
        yield "`desk resume` lets it go on"


commands.add_typer(approvals_commands)
commands.add_typer(orders_commands)
commands.add_typer(audit_commands)
commands.add_typer(risk_commands)
