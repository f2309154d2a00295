"""The rule of a lens on the figures of a day."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest

from chordesk.agents.roles import ROLES
from chordesk.agents.rulebook.cases import POLICIES, Case, Output
from chordesk.agents.rulebook.policies import screeners
from chordesk.models.errors import UsageError
from chordesk.tools.lenses.figures import Panel, read_panel
from chordesk.tools.lenses.files import read_lens
from chordesk.tools.lenses.rules import members, ruled, ruled_today
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.registry import Gaps
from tests.tools.conftest import Call, MakeContext

NAN = math.nan
PANEL = Panel(
    ("A", "B", "C", "D", "E"),
    {
        "gap": np.array([0.1, 0.2, NAN, 0.3, -0.1]),
        "rsi14": np.array([50.0, 60.0, 70.0, NAN, 40.0]),
        "change": np.array([0.01, NAN, 0.03, 0.04, 0.05]),
    },
    Gaps(),
)


def lens(front: str) -> str:
    return f"+++\n{front}\n+++\nWords."


def test_what_is_unknown_is_no_hit_and_is_counted() -> None:
    found = ruled(read_lens("one", lens("where = 'gap > 0'\nscore = 'rsi14'\nfigures = ['change']")), PANEL)
    assert [(one.symbol, one.confidence, one.score) for one in found.passed] == [
        ("B", "speculative", 60.0), ("A", "medium", 50.0),
    ]  # fmt: skip
    # C lacks what decides, and D what orders it.
    assert (found.compared, found.undecided, found.unknown) == (5, 2, {"rsi14": 1, "gap": 1, "change": 1})


def test_high_is_by_the_score_and_equal_scores_go_by_name() -> None:
    found = ruled(read_lens("one", lens("where = 'gap > -1'\nscore = 'abs(gap)'\nhigh = 'score > 0.25'")), PANEL)
    assert [(one.symbol, one.confidence.value) for one in found.passed] == [
        ("D", "high"), ("B", "medium"), ("A", "medium"), ("E", "medium"),
    ]  # fmt: skip


def test_ranks_are_among_the_names_that_the_lens_looks_at() -> None:
    one = read_lens("one", lens("universe = 'rsi14 < 65'\nwhere = 'rank(gap) > 0.6'"))
    inside, doubtful = members(one, PANEL, {})
    assert (inside.symbols, doubtful.symbols) == (("A", "B", "E"), ("D",))
    found = ruled(one, inside, doubtful=doubtful)
    assert [passed.symbol for passed in found.passed] == ["A", "B"]
    assert (found.compared, found.undecided, found.doubtful, found.unknown["rsi14"]) == (4, 1, 1, 1)


def test_a_universe_of_sectors_leaves_out_names_whose_sector_is_unknown() -> None:
    own = {"A": "Energy", "B": "energy", "C": "Utilities", "D": None}
    one = read_lens("one", lens("universe = 'SECTORS : Energy'\nwhere = 'gap > 0'"))
    inside, doubtful = members(one, PANEL, own)
    assert (inside.symbols, doubtful.symbols) == (("A", "B"), ("D", "E"))
    found = ruled(one, inside, doubtful=doubtful)
    assert (found.compared, found.undecided, found.doubtful) == (4, 2, 2)
    assert "of 2 it is unknown whether they are in its universe" in found.notes(one)[0]
    assert found.unknown == {"gap": 0, "sector": 2}


def test_a_sector_that_no_name_has_is_refused(market: ReplayMarket, make_context: MakeContext) -> None:
    one = read_lens("one", lens("universe = 'sectors: Tea leaves'\nwhere = 'gap > 0'"))
    with pytest.raises(UsageError, match="no name of the replay market is of the sector 'Tea leaves'"):
        ruled_today(one, make_context(market), ["IBM"])


def test_a_figure_that_the_market_does_not_have_is_refused(market: ReplayMarket, make_context: MakeContext) -> None:
    with pytest.raises(UsageError, match="the replay market has no trailingPE") as refused:
        ruled_today(read_lens("one", lens("where = 'trailingPE < 10'")), make_context(market), ["IBM"])
    assert "use a market that has it" in refused.value.remedy


DAYS = (dt.date(2010, 1, 22), dt.date(2010, 5, 7), dt.date(2010, 7, 30))


@pytest.mark.parametrize("name", ["technical", "options", "catalyst"])
def test_the_desks_own_files_put_forward_what_a_screen_on_rules_does(
    data: ReplayData, call: Call, name: str, make_context: MakeContext
) -> None:
    """The catalyst rules weigh the day's movers too, so that only their names are alike."""
    one = ROLES[f"screener_{name}"].lens
    assert one is not None
    for day in DAYS:
        market = ReplayMarket(data, ReplayClock(day))
        symbols = [listing.symbol for listing in market.universe("sp500")][:120]
        case = Case(f"screener_{name}", {"symbols": symbols}, frozenset({"signals_get"}), [])
        answer = call(market, "signals_get", symbols=symbols).payload
        case = Case(case.role, case.subject, case.tools, [Output("signals_get", answer)])
        put = POLICIES[case.role](case)
        assert isinstance(put, dict)
        passed = [found.symbol for found in ruled(one, read_panel(make_context(market), symbols, one.used)).passed]
        expected = [hit["symbol"] for hit in put["candidates"]]
        assert set(expected) <= set(passed)
        assert len(expected) == min(len(passed), screeners.limits.HITS_PER_LENS)
        if name != "catalyst":
            assert expected == passed[: len(expected)]
