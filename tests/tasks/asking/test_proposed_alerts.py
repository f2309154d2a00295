"""Alerts and watch lists as acts that a person confirms, where the tree has them."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.asking.proposing import from_text, wish
from chordesk.tasks.proposals import ProposalScope
from tests.parts import of_feature
from tests.tasks.asking.conftest import ADA, EVERY, Floor

tables = of_feature("chordesk.models.alerts.tables")
WISHES: list[tuple[str, str, dict[str, Any]]] = [
    ("alert me when AAPL falls below 150", "alert",
     {"do": "add", "name": "aapl-price-below-150", "when": "price below 150", "on": "AAPL"}),
    ("tell me if $ed rises by 5 %", "alert", {"do": "add", "name": "ed-move-up-5", "when": "move up 5%", "on": "ED"}),
    ("turn off alert dip", "alert", {"do": "off", "name": "dip"}),
    ("add NVDA and AAPL to watch list tech", "watchlist", {"do": "add", "name": "tech", "symbols": ["NVDA", "AAPL"]}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "arguments"), WISHES)
def test_a_persons_words_are_read_as_one_act(text: str, kind: str, arguments: dict[str, Any]) -> None:
    assert wish(text) == (kind, arguments)


def test_an_act_that_fails_or_that_they_may_not_confirm_is_said_and_not_done(floor: Floor) -> None:
    for text, error, told in (
        ("turn off alert dip", NotFound, "there is no alert"),
        ("add ZZZZZ to watch list tech", UsageError, "ZZZZZ"),
    ):
        with pytest.raises(error, match=told):
            from_text(floor.office, text, ADA)
    row = floor.proposes("alert me when IBM falls below 150")
    with pytest.raises(UsageError, match="ada may not confirm this: it needs start"):
        floor.confirms(row, scopes=EVERY - {ProposalScope.START})
    assert floor.row(row).state == "open"
    floor.confirms(floor.proposes("alert me when KO falls below 150"))
    with floor.office.store.session() as session:
        for number in range(199):
            session.add(
                tables.AlertsAlert(name=f"a{number}", subject="KO", condition="rating", by="x", written_on=utcnow())
            )
    with pytest.raises(UsageError, match="there are 200 alerts"):
        floor.confirms(row)
    assert floor.row(row).state == "open"
    assert len(floor.audit("proposal_confirmed")) == 1
    assert floor.confirms(floor.proposes("add IBM to watch list tech"), "bob").state == "done"
    with floor.office.store.read() as session:
        found = session.get_one(tables.AlertsWatchlist, "tech")
        assert (found.symbols, found.by) == (["IBM"], "bob via a test")
