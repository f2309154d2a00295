"""The options of `desk analyze`."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.models.analysis import AnalysisRequest
from chordesk.models.errors import UsageError
from chordesk.tasks.cli.start import analysis_depth, analysis_request


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert analysis_request("csp") == AnalysisRequest()
    assert (analysis_depth(None), analysis_depth("deep")) == (None, "deep")
    made = analysis_request("covered_call", max_delta=0.2, min_roc=0.25, dte="7-21", contracts=3, orders=False)
    assert made == AnalysisRequest(
        strategy="covered_call",
        max_delta=0.2,
        min_weekly_roc=0.0025,
        min_days=7,
        max_days=21,
        contracts=3,
        orders=False,
    )
    assert made.roles == ("chart", "research", "options")
    assert analysis_request("csp", research=False).roles == ("chart", "risk", "options")
    assert analysis_request("equity").roles == ("chart", "research")
    assert analysis_request("equity", research=False).roles == ("chart", "risk")
    assert [analysis_request(one).proposes for one in ("csp", "covered_call", "equity")] == [True, True, False]


@pytest.mark.parametrize(
    ("strategy", "given", "error"),
    [
        ("puts", {}, "--strategy 'puts' is no strategy"),
        ("csp", {"max_delta": 1.5}, "--max-delta 1.5 is out of range"),
        ("csp", {"max_delta": 0.0}, "--max-delta 0 is out of range"),
        ("csp", {"max_delta": float("nan")}, "--max-delta nan is out of range"),
        ("csp", {"min_roc": -0.1}, "--min-roc -0.1 is out of range"),
        ("csp", {"dte": "14"}, "--dte '14' is no range of days"),
        ("csp", {"dte": "45-14"}, "--dte 45-14 begins after its end"),
        ("csp", {"dte": "0-401"}, "--dte 0-401 is out of range"),
        ("csp", {"contracts": 0}, "--contracts 0 is out of range"),
        ("equity", {"dte": "14-45"}, "--dte is of a contract, and the strategy equity writes none"),
        ("equity", {"contracts": 1, "min_roc": 1.0}, "--min-roc and --contracts is of a contract"),
        ("equity", {"chart": False}, "the strategy equity rests on the chart"),
    ],
)
def test_an_option_that_is_wrong_is_named_with_its_remedy(strategy: str, given: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError) as raised:
        analysis_request(strategy, **given)
    assert str(raised.value).startswith(error)
    assert raised.value.remedy


def test_a_depth_that_there_is_not_is_named() -> None:
    with pytest.raises(UsageError, match="--depth 'fast' is no depth"):
        analysis_depth("fast")
