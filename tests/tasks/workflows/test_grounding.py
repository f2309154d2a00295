"""Reports of whole runs with the sources of their figures, through real workers and a model played on loopback."""

from __future__ import annotations

import pytest

from tests.tasks.views.chain import parts
from tests.tasks.workflows.conftest import Floor

pytestmark = pytest.mark.long


def test_an_invented_figure_caps_the_confidence_and_is_listed(floor: Floor) -> None:
    floor.model.summary, floor.model.figures = "RSI-14 stands at 12.34 and the close at 98765.43.", False
    found = floor.json("runs", "show", floor.research("AAPL"))
    assert found["grounded"]
    for report in found["grounded"]:
        assert (report["grounding"]["figures"], report["grounding"]["supported"]) == (2, 0)
        assert [one["figure"] for one in report["grounding"]["unsupported"]] == ["12.34", "98765.43"]
        assert (report["claimed"], report["confidence"]) == ("high", "low")
    assert found["summary"]["grounding"] == {"figures": 2 * len(found["grounded"]), "supported": 0, "share": 0.0}
    code, shown = floor.terminal("runs", "show", found["run_id"], columns=160)
    assert code == 0
    assert "no source: 12.34, 98765.43" in shown
    assert "high confidence capped to low, CONFIRMED counts as CAUTION" in shown
    assert found["candidates"][0]["verdict"] == "INSUFFICIENT", "no thesis that invented figures support counts"
    reasons = {
        row["reason"] for row in parts(floor.json("runs", "show", found["run_id"], "--lineage", "AAPL"), "report")
    }
    line = "2 of 2 figures have no source in its tool answers: 12.34, 98765.43; so its CONFIRMED counts as CAUTION"
    assert line in reasons


def test_a_report_without_figures_keeps_its_confidence_and_has_no_share(floor: Floor) -> None:
    floor.model.figures = False
    found = floor.json("runs", "show", floor.research("AAPL"))
    assert {report["grounding"]["share"] for report in found["grounded"]} == {None}
    assert all(report["claimed"] == report["confidence"] for report in found["grounded"])
    assert found["summary"]["grounding"] == {"figures": 0, "supported": 0, "share": None}
