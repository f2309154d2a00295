"""Outside accounts in the database: what is kept, replaced, doubted and forgotten; and their place in a standing."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, UsageError
from chordesk.models.money import FxRate, Money
from chordesk.models.statements import Holding, Read, Statement
from chordesk.models.tables.orders import Account, Position
from chordesk.models.thesis import Pooled
from chordesk.tools.holdings.keeping import accounts, earlier, forget, give_ticker, keep, plans
from chordesk.tools.holdings.portfolio_view import portfolio_view, unknown_sectors
from chordesk.tools.holdings.reading import read_file
from chordesk.tools.holdings.valuing import priced, symbols_of, worths
from chordesk.tools.holdings.whole_book import RULE, part_of
from chordesk.tools.market.fx import rate_into
from chordesk.tools.portfolio.holdings import standing_of
from chordesk.tools.portfolio.size_bounds import sizing
from tests.tools.conftest import MakeContext
from tests.tools.held_account import (
    BEFORE,
    Hold,
    hold,  # noqa: F401
)
from tests.tools.holdings.test_formats import FILES, HINTS
from tests.tools.market.far_market import TODAY
from tests.tools.test_standing import Named, waves


def statement(*rows: tuple[str, float], as_of: dt.date = TODAY, number: str = "") -> Statement:
    held = [
        Holding(at, name, "share", Decimal(str(quantity)), "USD", name, None, Decimal(10), rate=Decimal(1))
        for at, (name, quantity) in enumerate(rows)
    ]
    return Statement(number, tuple(held), as_of)


def a_read(*found: Statement, digest: str = "1", source: str = "plain") -> Read:
    return Read(source, source, digest, found)


def imported(store: Store, read: Read, name: str | None = None) -> list[str]:
    with store.session() as session:
        found = plans(session, read, name, "paper")
        assert not any(one.doubts for one in found), [one.doubts for one in found]
        keep(session, read, found)
    return [one.name for one in found]


def refused(store: Store, read: Read, name: str | None = None) -> str:
    """The one line that speaks against an import, with the option that overrules it."""
    with store.read() as session:
        try:
            (found,) = (
                f"{option}: {why}" for one in plans(session, read, name, "paper") for option, why in one.doubts.items()
            )
        except UsageError as error:
            return f"{error.args[0]}; {error.remedy}"
    return found


def test_a_new_file_takes_the_place_of_the_last_one_and_the_one_before_is_kept(store: Store) -> None:
    path = FILES / "schwab.csv"
    read = read_file(path, HINTS)
    assert imported(store, read) == ["schwab-123"]
    with store.read() as session:
        (plan,) = plans(session, read, None, "paper")
        assert plan.same
    for at, quantity in ((1, 11), (2, 12), (3, 13)):
        rows = statement(("MSFT", quantity), as_of=dt.date(2025, 5, 2 + at), number="123")
        assert imported(store, a_read(rows, digest=str(at), source="schwab")) == ["schwab-123"]
    with store.read() as session:
        (found,) = accounts(session)
        assert [one.row.quantity for one in found.positions] == [13]
        assert [one.row.quantity for one in earlier(session, "schwab-123")] == [12]
        assert accounts(session, dt.date(2025, 5, 4)) == [], "nothing of a later day is seen"


def test_another_person_s_file_is_noticed_and_an_account_is_not_kept_twice(store: Store) -> None:
    mine = a_read(statement(("IBM", 1), ("GE", 2), ("KO", 3), number="U111"))
    imported(store, mine, "savings")
    theirs = a_read(statement(("IBM", 5), number="U222"), digest="2")
    assert "--replace: savings is another account: its number is not the account ...U222's" in refused(
        store, theirs, "savings"
    )
    assert "the same account is imported already, as savings" in refused(store, replace(mine, digest="3"), "again")
    assert "the same file is imported already" in refused(
        store, replace(mine, statements=(statement(("IBM", 1)),)), "b"
    )
    alike = a_read(statement(("IBM", 1), ("GE", 2), ("KO", 3)), digest="4")
    assert "--also: most of its holdings are those of savings" in refused(store, alike, "copy")
    older = a_read(statement(("IBM", 1), as_of=dt.date(2024, 1, 2), number="U111"), digest="5")
    assert "--replace: savings is kept as of 2024-03-15, and this is older" in refused(store, older, "savings")
    other = a_read(statement(("IBM", 1), ("GE", 3)), digest="6")
    assert imported(store, other, "bank") == ["bank"], "a share in two accounts is two holdings"
    with store.session() as session:
        session.add(Account(name="paper", cash=1))
        session.flush()
        rows = (("XOM", 7), ("CVX", 8), ("PEP", 9))
        session.add_all(
            Position(account="paper", symbol=name, quantity=count, average_cost=1, filled_at=BEFORE)
            for name, count in rows
        )
    assert "are those of paper, which this desk trades" in refused(store, a_read(statement(*rows), digest="7"))
    with store.read() as session, pytest.raises(UsageError, match="the account that this desk trades"):
        plans(session, mine, None, "paper", ["U000", "U111"])
    with pytest.raises(UsageError, match="'paper' is an account that the desk trades"), store.read() as session:
        plans(session, other, "paper", "paper")
    with pytest.raises(UsageError, match="no name of an account"), store.read() as session:
        plans(session, other, "../x", "paper")


def test_the_account_number_is_nowhere_in_the_database(store: Store) -> None:
    imported(store, read_file(FILES / "ibkr.csv", HINTS))
    file = Path(store.engine.url.database or "")
    text = b"".join(path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
    assert b"ibkr-4567" in text
    assert b"U1234567" not in text


def test_two_imports_of_one_account_at_once_are_one(store: Store) -> None:
    read = a_read(statement(("IBM", 1)))
    with store.read() as session:
        found = plans(session, read, "mine", "paper")
    imported(store, a_read(statement(("GE", 1)), digest="2"), "mine")
    with pytest.raises(UsageError, match="imported by somebody else meanwhile"), store.session() as session:
        keep(session, read, found)


def test_names_without_a_ticker_are_mapped_and_forgotten_accounts_are_gone(
    store: Store, make_context: MakeContext
) -> None:
    imported(store, read_file(FILES / "degiro.csv", replace(HINTS, as_of=TODAY)))
    market = Named(waves().histories)
    with store.session() as session:
        assert give_ticker(session, "US0378331005", "A") == 1
        with pytest.raises(UsageError, match="is no symbol"):
            give_ticker(session, "US0378331005", "no ticker")
    with store.read() as session:
        found = accounts(session)
    context = make_context(market, store)
    known = priced(context, symbols_of(found))
    rows = {one.outside.row.name: one for one in worths(context, found, known)}
    close = float(market.histories["A"].close[-1])
    assert rows["APPLE INC"].value == pytest.approx(10 * close)
    assert (rows["APPLE INC"].by, rows["ASML HOLDING"].by) == ("market", "file")
    of_market = rate_into(market, "EUR", Money("USD")).rate  # the file's own is another
    assert rows["ASML HOLDING"].value == pytest.approx(3251.0 * of_market)
    # A sum of activity has no value: what a person named is worth its market's price, whatever it was bought in.
    summed = replace(found[0].positions[1].row, price=None, value=None, currency="CHF", rate=None)
    bare = replace(found[0], positions=(replace(found[0].positions[1], row=summed),))
    assert [one.value for one in worths(context, [bare], known)] == [pytest.approx(10 * close)]
    with store.session() as session:
        assert forget(session, ["degiro"]) == 4
        assert accounts(session) == []


def test_a_standing_has_the_whole_book_s_bound_and_names_nothing_of_it(hold: Hold, store: Store) -> None:  # noqa: F811
    market = Named(waves().histories)
    context = hold(market, cash=100_000.0)
    free = sizing("A", Pooled(probability=0.6), standing_of(context, ["A"])).most
    close = float(market.histories["A"].close[-1])
    imported(store, a_read(statement(("C", round(60_000 / close, 2)))), "my savings")
    found = sizing("A", Pooled(probability=0.6), standing_of(context, ["A"]))
    assert (found.most, found.bound, found.overlap) == (0, RULE, [])
    assert free is not None
    assert free > 0
    assert "my savings" not in found.model_dump_json()
    assert '"C"' not in found.model_dump_json(), "what is held outside has no name here"
    off = context.settings.model_copy(update={"book": "off"})
    assert sizing("A", Pooled(probability=0.6), standing_of(replace(context, settings=off), ["A"])).most == free
    later = a_read(statement(("C", 1), as_of=TODAY + dt.timedelta(days=1)), digest="2")
    imported(store, later, "my savings")
    assert sizing("A", Pooled(probability=0.6), standing_of(context, ["A"])).most == free, "it is of tomorrow"


def test_one_holding_of_two_files_is_one_line(store: Store, make_context: MakeContext) -> None:
    """Whatever kind and currency each calls it, and where one has its ISIN alone; a file that gives the ISIN another
    ticker leaves it to a person."""
    isin = "US0378331005"
    ours = Holding(1, "Acme", "share", Decimal(10), "USD", "A", isin, Decimal(100), rate=Decimal(1))
    fund = replace(ours, kind="fund", isin=None)
    theirs = replace(ours, symbol=None, name="ACME INC", currency="EUR", rate=Decimal("1.1"))
    for name, row in (("one", ours), ("two", fund), ("three", theirs)):
        imported(store, a_read(Statement("", (row,), TODAY), digest=name), name)
    context = replace(make_context(Named(waves().histories), store), account="paper")
    lines = {one.name: (one.kind, one.currency, one.accounts) for one in portfolio_view(context, 7).holdings}
    assert lines["A"] == ("fund", "USD", ["one", "three", "two"])
    assert lines.keys() == {"A", "Cash"}
    imported(store, a_read(Statement("", (replace(ours, symbol="B"),), TODAY), digest="four"), "four")
    assert {one.name for one in portfolio_view(context, 7).holdings} == {"A", "B", isin, "Cash"}


class Converts(Named):
    """Knows what a dollar is worth in euros, and nothing else."""

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        if pair != "USDEUR":
            raise MarketError(f"no rate of {pair}")
        return FxRate("USD", "EUR", 0.8, self.clock.now(), "here")


def test_the_whole_is_valued_in_the_currency_of_the_desk(store: Store, make_context: MakeContext) -> None:
    """By hand: 1,000 dollars are 800 euros, whatever a file's own rate is, and a file's 1.25 dollars for an Egyptian
    pound 1 euro; of dinars nobody knows, nor of a contract that has expired since what it became."""
    rows = [
        Holding(1, "Cash", "cash", Decimal(1000), "USD", value=Decimal(1000), rate=Decimal("1.01")),
        Holding(2, "Cash", "cash", Decimal(500), "EUR", value=Decimal(500)),
        Holding(3, "Bond", "other", Decimal(1), "EGP", value=Decimal(300), rate=Decimal("1.25")),
        Holding(4, "Note", "other", Decimal(1), "KWD", value=Decimal(300)),
        Holding(5, "A", "share", Decimal(10), "USD", "A", price=Decimal(100), rate=Decimal(1)),
        Holding(6, "P", "option", Decimal(-2), "USD", "A401221P00090000", price=Decimal(3), rate=Decimal(1)),
        Holding(7, "X", "option", Decimal(2), "USD", "A090619C00090000", price=Decimal(3), rate=Decimal(1)),
    ]
    imported(store, a_read(Statement("", tuple(rows), TODAY)))
    with store.read() as session:
        found = accounts(session)
    market = Converts(waves().histories)
    context = make_context(market, store, currency="EUR")
    known = priced(context, symbols_of(found))
    by_line = {one.outside.row.name: one for one in worths(context, found, known)}
    close = float(market.histories["A"].close[-1])
    values = {name: one.value for name, one in by_line.items() if name != "Cash"}
    assert values == {"Bond": 300.0, "Note": None, "A": pytest.approx(8 * close), "P": pytest.approx(-480.0), "X": None}
    assert "expired on 2009-06-19" in by_line["X"].why
    assert "no rate of KWD" in by_line["Note"].why
    put = part_of(by_line["P"], known)
    assert put.exposure == pytest.approx(2 * 90 * 100 * 0.8)
    assert sum(one.value or 0 for one in worths(context, found, known) if one.outside.row.kind == "cash") == 1300
    view = portfolio_view(replace(context, account="paper"), 7)
    nameless = view.model_copy(update={"holdings": [one.model_copy(update={"sector": None}) for one in view.holdings]})
    assert (unknown_sectors(view), unknown_sectors(nameless)) == (
        0,
        pytest.approx(sum(abs(one.weight or 0) for one in view.holdings if one.kind in ("share", "option"))),
    ), "neither cash nor a bond is of an unknown sector"
    assert view.currency == "EUR"
