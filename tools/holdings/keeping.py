"""Outside accounts in the database: a file's account replaces what was kept of it, after what speaks against it was
said."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import get_args

from sqlmodel import Session, col, delete, select

from chordesk.models.errors import UsageError
from chordesk.models.holdings.tables import HoldingsAccount, HoldingsPosition, HoldingsSnapshot, HoldingsTicker
from chordesk.models.market import parse_contract
from chordesk.models.money import COINS, DOLLAR
from chordesk.models.settings.schema import BROKERS
from chordesk.models.statements import Holding, Kind, Read, Statement
from chordesk.models.tables.orders import Account, Position
from chordesk.models.text import one_line
from chordesk.tools.decimals import exact
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}")
NAME_RULE = "up to 40 letters, digits, spaces, dots, hyphens and low lines, a letter or digit first"
_ABSURD = Decimal("1e18")  # of a quantity or of money, above all that a file may say, and far below what a float is
_KINDS = get_args(Kind)
_DAMAGED = "`desk holdings forget ACCOUNT`, or --all, and import its file again"
ALIKE = Decimal("0.8")  # of the rows of two accounts, from which they may be one
ALIKE_ROWS = 3  # two accounts with one share each are alike by chance


@dataclass(frozen=True, slots=True)
class Outside:
    """A position of an outside account, with the ticker that a person gave its name."""

    account: str
    as_of: dt.date
    row: Holding
    symbol: str | None


@dataclass(frozen=True, slots=True)
class OutsideAccount:
    """An account with its newest snapshot. summed: rows of activity that its holdings are a sum of."""

    name: str
    source: str
    as_of: dt.date
    imported_at: dt.datetime
    positions: tuple[Outside, ...]
    summed: int | None = None
    home: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What an import would do with one account of a file. doubts: what speaks against it, by the option that overrules
    it. same: the file is what is kept already."""

    name: str
    statement: Statement
    before: OutsideAccount | None
    doubts: Mapping[str, str]
    same: bool = False


def digest_of(number: str, salt: str) -> str:
    """Return a digest of an account's number that takes long to guess: numbers have few digits."""
    return hashlib.scrypt(number.encode(), salt=salt.encode(), n=2**14, r=8, p=1, dklen=32).hex()


def plans(session: Session, read: Read, account: str | None, own: str, own_numbers: Collection[str] = ()) -> list[Plan]:
    """Return what an import does, account by account. own: the desk's own account; own_numbers: the numbers of accounts
    that the desk trades, as far as they are known. Raises UsageError for the desk's own account and for a name that
    cannot be."""
    kept, rows = accounts(session), session.exec(select(HoldingsAccount)).all()
    found: list[Plan] = []
    taken = set(session.exec(select(Account.name))) | BROKERS.keys()
    for statement in read.statements:
        if statement.number and statement.number in own_numbers:
            reason = f"the file is of {_hidden(statement.number)}, the account that this desk trades"
            raise UsageError(reason, remedy="its positions are known already; nothing was written")
        known = next((one.name for one in rows if _is_number(one, statement.number)), None)
        name = _name(read, statement, account, known, several=len(read.statements) > 1)
        if name in taken:
            raise UsageError(f"{name!r} is an account that the desk trades", remedy="choose another name: --account")
        if name in (one.name for one in found):
            name = f"{name}-{len(found) + 1}"
        row = next((one for one in rows if one.name == name), None)
        before = next((one for one in kept if one.name == name), None)
        doubts = dict(_doubts(session, read, statement, name, row, before, kept, known, own))
        same = _digest(session, before) == read.digest and not doubts
        found.append(Plan(name, statement, before, doubts, same))
    return found


def _hidden(number: str) -> str:
    return f"the account ...{number[-4:]}"


def _is_number(row: HoldingsAccount, number: str) -> bool:
    return bool(number) and row.number_digest is not None and digest_of(number, row.salt) == row.number_digest


def _name(read: Read, statement: Statement, account: str | None, known: str | None, *, several: bool) -> str:
    last = re.sub(r"[^A-Za-z0-9]", "", statement.number)[-4:]
    if account is not None:
        name = f"{account}-{last or one_line(statement.label, 20)}" if several else account
    elif known is not None:
        return known
    elif read.source == "plain" and statement.label:
        name = statement.label
    else:
        name = f"{read.source}-{last}" if last else read.source
    name = name.strip()
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{one_line(name, 40)!r} is no name of an account", remedy=f"--account NAME: {NAME_RULE}")
    return name


def _doubts(
    session: Session,
    read: Read,
    statement: Statement,
    name: str,
    row: HoldingsAccount | None,
    before: OutsideAccount | None,
    kept: Sequence[OutsideAccount],
    known: str | None,
    own: str,
) -> Iterable[tuple[str, str]]:
    if row is not None and row.number_digest and statement.number and not _is_number(row, statement.number):
        yield "--replace", f"{name} is another account: its number is not {_hidden(statement.number)}'s"
    elif before is not None and before.source != read.source and not (known and known == name):
        yield (
            "--replace",
            f"{name} was imported from {before.source}, and this is {read.source}: perhaps another account",
        )
    elif before is not None and statement.as_of is not None and before.as_of > statement.as_of:
        yield "--replace", f"{name} is kept as of {before.as_of}, and this is older, of {statement.as_of}"
    if known is not None and known != name:
        reason = f"the same account is imported already, as {known}; nothing was written"
        raise UsageError(reason, remedy=f"leave --account out, or `desk holdings forget {known}` first")
    for other in kept:
        if other.name == name:
            continue
        if _digest(session, other) == read.digest and len(read.statements) == 1:
            reason = f"the same file is imported already, as {other.name}; nothing was written"
            raise UsageError(reason, remedy=f"`desk holdings forget {other.name}` first, if that is the wrong name")
        if _alike(statement.holdings, [one.row for one in other.positions]):
            yield "--also", f"most of its holdings are those of {other.name}, with the same quantities"
            return
    held = session.exec(select(Position).where(col(Position.account) == own)).all()
    if _alike(statement.holdings, [_own(one) for one in held]):
        yield "--also", f"most of its holdings are those of {own}, which this desk trades"


def _own(row: Position) -> Holding:
    kind: Kind = "option" if parse_contract(row.symbol) else "share"
    return Holding(0, row.symbol, kind, exact(row.quantity), "USD", row.symbol)


def _alike(some: Sequence[Holding], others: Sequence[Holding]) -> bool:
    one, other = ({(row.key, row.quantity) for row in rows if row.kind != "cash"} for rows in (some, others))
    fewer = min(len(one), len(other))
    return fewer >= ALIKE_ROWS and len(one & other) >= ALIKE * max(len(one), len(other))


def _digest(session: Session, found: OutsideAccount | None) -> str | None:
    newest = _newest(session, found.name) if found is not None else None
    return newest.digest if newest is not None else None


def _newest(session: Session, account: str) -> HoldingsSnapshot | None:
    rows = select(HoldingsSnapshot).where(col(HoldingsSnapshot.account) == account)
    return session.exec(rows.order_by(col(HoldingsSnapshot.created_at).desc(), col(HoldingsSnapshot.id).desc())).first()


def keep(session: Session, read: Read, found: Iterable[Plan]) -> None:
    """Write the accounts of a file: each one's snapshot takes the place of the one that counted, which is kept to
    compare, and the one before that goes."""
    for plan in found:
        row = session.get(HoldingsAccount, plan.name, with_for_update=True)
        if row is None:
            row = HoldingsAccount(name=plan.name, source=read.source, salt=secrets.token_hex(16))
            session.add(row)
        row.source, row.home = read.source, read.home
        if plan.statement.number:
            row.number_digest = digest_of(plan.statement.number, row.salt)
        session.flush()
        newest = _newest(session, plan.name)
        before = plan.before.imported_at if plan.before is not None else None
        if (newest.created_at if newest is not None else None) != before:
            raise UsageError(
                f"{plan.name} was imported by somebody else meanwhile", remedy="look at it, then try again"
            )
        _drop(session, [one for one in _snapshots(session, plan.name) if newest is None or one != newest.id])
        _write(session, read, plan)


def _write(session: Session, read: Read, plan: Plan) -> None:
    total = next(iter(plan.statement.totals), None)
    assert plan.statement.as_of is not None
    made = HoldingsSnapshot(
        account=plan.name, as_of=plan.statement.as_of, source=read.source, digest=read.digest, summed=read.summed,
        total=None if total is None else str(total.stated), currency=None if total is None else total.currency,
    )  # fmt: skip
    session.add(made)
    session.flush()
    rows = [
        HoldingsPosition(
            snapshot_id=made.id, line=at, symbol=row.symbol, isin=row.isin, name=row.name, kind=row.kind,
            quantity=str(row.quantity), price=_text(row.price), value=_text(row.value), cost=_text(row.cost),
            currency=row.currency, rate=_text(row.rate),
        )
        for at, row in enumerate(plan.statement.holdings)
    ]  # fmt: skip
    made.seal = _seal(made, rows)
    session.add_all(rows)


def _seal(snapshot: HoldingsSnapshot, rows: Iterable[HoldingsPosition]) -> str:
    """Return a digest of all of a snapshot that bounds a size: a row that went, or is another's, changes it."""
    written = [
        [
            row.line, row.symbol, row.isin, row.name, row.kind, row.quantity, row.price, row.value, row.cost,
            row.currency, row.rate,
        ]
        for row in rows
    ]  # fmt: skip
    return hashlib.sha256(json.dumps([snapshot.as_of.isoformat(), written]).encode()).hexdigest()


def _text(number: Decimal | None) -> str | None:
    return None if number is None else str(number)


def _snapshots(session: Session, account: str) -> list[str]:
    return list(session.exec(select(HoldingsSnapshot.id).where(col(HoldingsSnapshot.account) == account)))


def _drop(session: Session, snapshots: Sequence[str]) -> None:
    session.exec(delete(HoldingsPosition).where(col(HoldingsPosition.snapshot_id).in_(snapshots)))
    session.exec(delete(HoldingsSnapshot).where(col(HoldingsSnapshot.id).in_(snapshots)))


def forget(session: Session, names: Sequence[str]) -> int:
    """Delete accounts with all that is kept of them; return how many positions went."""
    gone = 0
    for name in names:
        snapshots = _snapshots(session, name)
        gone += len(
            session.exec(select(HoldingsPosition.line).where(col(HoldingsPosition.snapshot_id).in_(snapshots))).all()
        )
        _drop(session, snapshots)
        session.exec(delete(HoldingsAccount).where(col(HoldingsAccount.name) == name))
    return gone


def tickers(session: Session) -> dict[str, str]:
    return {row.written: row.ticker for row in session.exec(select(HoldingsTicker))}


def give_ticker(session: Session, written: str, ticker: str | None) -> int:
    """Say what a symbol, name or ISIN of files is called here; None takes it back. Return how many positions that are
    kept it is about. Raises UsageError for what is no symbol."""
    key = one_line(written, 120).strip()
    if ticker is not None and not is_symbol(ticker) and parse_contract(ticker) is None:
        raise UsageError(f"{one_line(ticker, 20)!r} is no symbol: {SYMBOL_RULE}", remedy="name it as the market does")
    row = session.get(HoldingsTicker, key)
    if ticker is None:
        if row is None:
            raise UsageError(f"{key!r} has no ticker", remedy="`desk holdings` shows the names without one")
        session.delete(row)
    elif row is None:
        session.add(HoldingsTicker(written=key, ticker=ticker))
    else:
        row.ticker = ticker
    return sum(
        key in (one.row.symbol, one.row.isin, one.row.name) for each in accounts(session) for one in each.positions
    )


def accounts(session: Session, today: dt.date | None = None) -> list[OutsideAccount]:
    """Return the outside accounts by name, each with its newest snapshot. today: snapshots of later days do not exist
    yet, so that nothing later is seen. Raises UsageError for what is not as it was written, of whatever day: what is
    missing in it would bound nothing."""
    held = []
    for row in session.exec(select(HoldingsAccount).order_by(col(HoldingsAccount.name))):
        newest = _newest(session, row.name)
        if newest is None:  # an account is written with one
            raise _damaged()
        rows = _held(session, newest)
        if today is None or newest.as_of <= today:
            held.append((row, newest, rows))
    known = {**_learned(one for _, _, rows in held for one in rows), **tickers(session)}
    return [_account(row, newest, rows, known) for row, newest, rows in held]


def _learned(rows: Iterable[Holding]) -> dict[str, str]:
    """Return the tickers that files give ISINs: what one file names, another that has the ISIN alone holds too. Where
    two disagree a person decides."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row.isin and row.symbol and row.kind != "option":
            found.setdefault(row.isin, set()).add(row.symbol)
    return {isin: next(iter(symbols)) for isin, symbols in found.items() if len(symbols) == 1}


def linked_homes(session: Session) -> dict[str, tuple[str, Callable[[str], bool]]]:
    """By the name of a linked account: the other desk's folder, and whether a number is the account's there."""
    rows = session.exec(select(HoldingsAccount).where(col(HoldingsAccount.home).is_not(None)))
    return {row.name: (row.home or "", partial(_is_number, row.model_copy())) for row in rows}


def earlier(session: Session, name: str) -> tuple[Outside, ...]:
    """Return what an account held by the snapshot before the newest one."""
    newest = _newest(session, name)
    rows = select(HoldingsSnapshot).where(col(HoldingsSnapshot.account) == name)
    others = [one for one in session.exec(rows) if newest is not None and one.id != newest.id]
    row = session.get(HoldingsAccount, name)
    if not others or row is None:
        return ()
    return _account(row, others[0], _held(session, others[0]), tickers(session)).positions


def _held(session: Session, snapshot: HoldingsSnapshot) -> list[Holding]:
    rows = session.exec(
        select(HoldingsPosition)
        .where(col(HoldingsPosition.snapshot_id) == snapshot.id)
        .order_by(col(HoldingsPosition.line))
    ).all()
    is_whole = bool(rows) if snapshot.seal is None else snapshot.seal == _seal(snapshot, rows)
    if not is_whole or snapshot.as_of > snapshot.created_at.date() + dt.timedelta(days=1):  # a day of another zone
        raise _damaged()
    return [_holding(one) for one in rows]


def _damaged() -> UsageError:
    # A denial of an order may say it, so that it names nothing that is held.
    return UsageError("what is kept of an outside account is damaged", remedy=_DAMAGED)


def _account(
    row: HoldingsAccount, newest: HoldingsSnapshot, held: Sequence[Holding], known: Mapping[str, str]
) -> OutsideAccount:
    positions = tuple(Outside(row.name, newest.as_of, one, _symbol(one, known)) for one in held)
    return OutsideAccount(row.name, newest.source, newest.as_of, newest.created_at, positions, newest.summed, row.home)


def _symbol(row: Holding, known: Mapping[str, str]) -> str | None:
    named = next((known[one] for one in (row.isin, row.symbol, row.name) if one and one in known), None)
    if named is None and row.kind == "crypto" and row.symbol is None and row.key in COINS:
        return f"{row.key}-{DOLLAR}"  # a coin is one thing wherever it lies
    return named or row.symbol


def _holding(row: HoldingsPosition) -> Holding:
    def known(text: str) -> Decimal:
        found = Decimal(text)
        if not found.is_finite() or abs(found) >= _ABSURD:
            raise InvalidOperation
        return found

    def number(text: str | None) -> Decimal | None:
        return None if text is None else known(text)

    kind: Kind = row.kind  # type: ignore[assignment]
    try:
        if kind not in _KINDS:
            raise InvalidOperation
        return Holding(
            row.line, row.name, kind, known(row.quantity), row.currency, row.symbol, row.isin,
            price=number(row.price), value=number(row.value), cost=number(row.cost), rate=number(row.rate),
        )  # fmt: skip
    except InvalidOperation:
        raise _damaged() from None


def names(session: Session) -> list[str]:
    return list(session.exec(select(HoldingsAccount.name).order_by(col(HoldingsAccount.name))))


def require_names(session: Session, wanted: Iterable[str]) -> None:
    """Raise UsageError for a name that no account has, with the names that there are."""
    found = names(session)
    for name in wanted:
        if name not in found:
            known = ", ".join(found) or "there is none yet"
            raise UsageError(f"there is no outside account {one_line(name, 40)!r}", remedy=f"known: {known}")


def named(session: Session, name: str) -> OutsideAccount:
    """Return an account by its name. Raises UsageError as `require_names`."""
    require_names(session, [name])
    return next(one for one in accounts(session) if one.name == name)
