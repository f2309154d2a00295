"""`desk arm`, `desk disarm`, `desk mandate`: a person's limits for a broker that moves real money."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.models.orders import MandateTerms
from chordesk.models.settings import REAL_MONEY
from chordesk.models.text import utc
from chordesk.tasks.cli import arming
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.tasks.reading.order_history import MandateState

NONE_IN_FORCE = 1
commands = typer.Typer()


@commands.command()
def arm(
    broker: Annotated[str, typer.Option(help=f"A broker with real money: {', '.join(sorted(REAL_MONEY))}.")],
    max_notional: Annotated[str, typer.Option(help="Most money over all its orders, in account currency.")],
    max_orders: Annotated[int, typer.Option(help="Most orders.", min=1, max=10_000)],
    symbols: Annotated[str, typer.Option(help="Underlyings by comma; '*' for all.")],
    hours: Annotated[float, typer.Option(help="It ends after so many.", min=0.01, max=arming.MOST_HOURS)] = 8.0,
    caution: Annotated[bool, typer.Option("--caution", help="Send what rests on a verdict of CAUTION, too.")] = False,
    as_json: Json = False,
) -> None:
    """Sign a mandate: real money within limits, for some hours.

    It lets a broker with real money take orders.
    """
    from chordesk.tools.ledger import currency_of_account

    _known(broker)
    settings, store = opened()
    path = arming.key_path(settings)
    key = arming.signing_key(path)
    public = arming.public_text(key)
    terms = arming.arm(
        store, settings, key, broker, _amount(max_notional), max_orders, symbols.split(","), hours, whoami(), caution
    )
    with store.read() as session:
        base = currency_of_account(session, broker)
    lines = [described(terms, base), f"signed with {path}"]
    if settings.mandate_public_key != public:
        lines.append("workers do not know this key yet; give them this setting and start them again:")
    lines.append(f"DESK_MANDATE_PUBLIC_KEY={public}")
    emit({**terms.model_dump(mode="json"), "public_key": public}, lambda _: "\n".join(lines), as_json=as_json)


@commands.command()
def disarm(
    broker: Annotated[str | None, typer.Option(help="Only this broker's mandate; all without it.")] = None,
) -> None:
    """Take a mandate back, at once."""
    from chordesk.tools.orders import halting

    if broker is not None:
        _known(broker)
    settings, store = opened()
    versions = halting.disarm(store, settings, broker, whoami())
    listed = ", ".join(str(version) for version in versions)
    typer.echo(f"disarmed: mandate {listed}" if versions else "there was no mandate to disarm")


@commands.command()
@looks("no mandate yet")
def mandate(as_json: Json = False) -> None:
    """Show the mandate in force and what is left of it.

    Exit code 1 when there is none.
    """
    from chordesk.tasks.reading.order_history import mandate_states

    settings, store = opened()
    with store.read() as session:
        found = [_standing(one) for one in mandate_states(session, settings)]
    emit(found, lambda _: "\n".join(row["text"] for row in found), as_json=as_json)
    if not any(row["in_force"] for row in found):
        raise typer.Exit(NONE_IN_FORCE)


def described(terms: MandateTerms, currency: str) -> str:
    """currency: of the account that it is for."""
    from chordesk.models.tables.columns import utcnow
    from chordesk.tools.decimals import money

    left = max(terms.expires_at - utcnow(), dt.timedelta(0)) / dt.timedelta(hours=1)
    most = money(terms.max_notional, currency)
    return (
        f"mandate {terms.version}: {terms.broker} may take {terms.max_orders} orders of {most} "
        f"in all, on {', '.join(terms.symbols)}{', at CAUTION too' if terms.caution else ''}\n"
        f"until {utc(terms.expires_at)}, {left:.1f} hours from now; armed by {terms.armed_by}"
    )


def _standing(one: MandateState) -> dict[str, Any]:
    from chordesk.tools.decimals import money

    if one.used_notional is None:
        return {"broker": one.broker, "in_force": False, "why": one.why, "text": f"{one.broker}: {one.why}"}
    terms = MandateTerms.model_validate(one.terms)
    spent = (
        f"used: {one.used_orders} of {terms.max_orders} orders, {money(one.used_notional, one.currency)} of "
        f"{money(terms.max_notional, one.currency)}"
    )
    return {
        "broker": one.broker,
        "in_force": True,
        "mandate": one.terms,
        "used": {"orders": one.used_orders, "notional": str(one.used_notional)},
        "text": f"{described(terms, one.currency)}\n{spent}",
    }


def _known(broker: str) -> None:
    if broker not in REAL_MONEY:
        known = ", ".join(sorted(REAL_MONEY))
        raise UsageError(f"--broker {broker!r} moves no real money and needs no mandate", remedy=f"one of: {known}")


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(0)
    if not amount.is_finite() or amount <= 0:
        raise UsageError(f"--max-notional {text!r} is no amount of money", remedy="give a number above zero, as 25000")
    return amount
