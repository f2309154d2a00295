"""What the pages show of a measurement is what it printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ordeal import figures

PRINTED = """up after 8.0 s; running `desk screen --wait`
   2.0 s  screen 0/17 | turns 0
  28.5 s  screen 17/17 | reports 80/80 | trader 1/1 | orders 1/1 | candidates 14 BUY
Symbol  Screeners                                      Hit conf.  Verdict  Conf.   Tools
AN      options, technical                             high       HOLD     medium      8
ED      catalyst                                       high       BUY      medium      8
Gate: live trading is off; previews are stored, nothing was submitted: 12 previewed
  117 of 117 figures in the analysts' texts were found in what their tools answered
  60 forecasts of 6 voices; 85 of 85 citations count
done in 129 s
"""


pytestmark = pytest.mark.process  # git says which commit it is


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(figures, "FIGURES", tmp_path)
    return tmp_path


def test_of_a_demo_that_ended_the_lines_that_tell_what_it_did_are_kept(kept: Path) -> None:
    figures.demo(PRINTED)
    shown = json.loads((kept / "demo.json").read_text("utf-8"))["text"].splitlines()
    assert shown[2:4] == [
        "Symbol  Screeners           Hit conf.  Verdict  Conf.   Tools",
        "AN      options, technical  high       HOLD     medium  8",
    ]
    assert (shown[1], shown[-1]) == (PRINTED.splitlines()[2], "done in 129 s")
    with pytest.raises(ValueError, match="done in"):
        figures.demo(PRINTED.replace("done in 129 s", ""))


def test_a_benchmarks_figure_has_the_form_of_its_column_and_a_missing_one_is_empty(kept: Path) -> None:
    rows = [
        {"who": "code", "figures": {"brier": 0.17690595, "n": 15363.0}, "source": "this desk"},
        {"who": "o3", "figures": {"brier": 0.156}, "source": "a leaderboard"},
    ]
    told = {"columns": {"brier": ".4f", "n": ",.0f"}, "rows": rows, "lines": ["21 sets"]}
    figures.KEPT["forecastbench"](json.dumps(told))
    found = json.loads((kept / "forecastbench.json").read_text("utf-8"))
    assert found["columns"] == ["who", "brier", "n", "source"]
    assert found["rows"] == [["code", "0.1769", "15,363", "this desk"], ["o3", "0.1560", "", "a leaderboard"]]
    assert found["note"] == "21 sets"
