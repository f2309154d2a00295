"""sec_filings: the real edgartools against a loopback stand-in of the SEC's archive, and markets with their own."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chordesk.models.company import Filing
from chordesk.models.settings.sources import load
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.registry import ToolAnswer
from tests.builders import uninstalled
from tests.fakes.sec import FarSec, filing
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY, FarMarket, NowClock
from tests.tools.research.company_market import CompanyMarket

APPLE, IDENTITY = 320193, "Ada Lovelace ada@example.org"
NOW = NowClock().now()
Ask = Callable[..., ToolAnswer]
BASES = ("EDGAR_BASE_URL", "EDGAR_DATA_URL", "EDGAR_XBRL_URL")


@pytest.fixture(scope="session")
def _archive() -> Iterator[FarSec]:
    """One for the process: edgartools reads its addresses once, as it is imported."""
    server = FarSec()
    server.start()
    os.environ.update(dict.fromkeys(BASES, server.url))
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def sec(_archive: FarSec) -> FarSec:
    _archive.clear()
    return _archive


@pytest.fixture
def ask(make_context: MakeContext, call: Call, tmp_path: Path) -> Ask:
    def ask(*symbols: str, identity: str | None = IDENTITY, **arguments: object) -> ToolAnswer:
        context = make_context(FarMarket(clock=NowClock()), home=tmp_path, sec_identity=identity)
        return call(context, "sec_filings", symbols=list(symbols), **arguments)

    return ask


def day(back: int) -> str:
    return str(TODAY - dt.timedelta(days=back))


ROWS = [
    filing("4", day(1), f"{day(1)}T22:00:00.000Z", 9),
    filing("8-K", day(2), f"{day(2)}T21:30:29.000Z", 8, items="2.02,9.01", reportDate=day(2)),
    filing("10-Q/A", day(40), f"{day(40)}T11:01:36.000Z", 7, primaryDocDescription="<b>10-Q\x00</b>"),
    filing("8-K", day(300), f"{day(300)}T11:01:36.000Z", 6, items="5.02"),
]


def test_filings_are_the_archive_s(sec: FarSec, ask: Ask) -> None:
    sec.companies[APPLE] = ROWS
    answer = ask("AAPL")
    assert answer.has_data
    assert answer.payload["filingsSource"] == "edgar"
    (company,) = answer.payload["companies"]
    folder = f"{sec.url}/Archives/edgar/data/320193"
    assert company["filings"] == [
        {
            "form": "8-K", "filed": "2024-03-13", "period": "2024-03-13", "items": ["2.02", "9.01"],
            "url": f"{folder}/000032019324000008/doc8.htm", "knownAt": "2024-03-13T21:30:29Z",
        },
        {
            "form": "10-Q/A", "filed": "2024-02-04", "title": "<b>10-Q</b>",
            "url": f"{folder}/000032019324000007/doc7.htm", "knownAt": "2024-02-04T11:01:36Z",
        },
    ]  # fmt: skip
    assert answer.payload["missing"] == []
    assert sec.asked == ["/submissions/CIK0000320193.json"]
    assert sec.agents == {IDENTITY}


def test_forms_days_and_limit_choose(sec: FarSec, ask: Ask) -> None:
    sec.companies[APPLE] = ROWS

    def forms(**arguments: object) -> list[str]:
        return [row["form"] for row in ask("AAPL", **arguments).payload["companies"][0]["filings"]]

    assert forms(forms=["10-q"]) == ["10-Q/A"]
    assert forms(forms=["4"]) == ["4"]
    assert forms(days=1000) == ["8-K", "10-Q/A", "8-K"]
    assert forms(days=1) == []
    answer = ask("AAPL", limit=1)
    assert answer.payload["missing"] == [
        {"symbol": "AAPL", "what": "older filings", "reason": "2 are known, 1 are shown"}
    ]
    refused = ask("AAPL", forms=["<8-K>"])
    assert "'<8-K>' is no form, such as 8-K, 10-Q or SC 13D" in refused.payload["error"]


def test_an_answer_is_kept_and_no_later_filing_shown(sec: FarSec, ask: Ask, tmp_path: Path) -> None:
    sec.companies[APPLE] = [filing("8-K", day(-1), f"{day(-1)}T11:00:00.000Z", 1), *ROWS]
    shown = ask("AAPL", days=1000).payload["companies"][0]["filings"]
    assert ask("AAPL", days=1000).payload["companies"][0]["filings"] == shown
    assert len(sec.asked) == 1
    (file,) = (tmp_path / "cache" / "edgar").glob("filings-AAPL.json")
    assert len(json.loads(file.read_text())["value"]) == 5
    assert IDENTITY.split()[-1] not in file.read_text()


def test_share_classes_and_unknown_names(sec: FarSec, ask: Ask) -> None:
    sec.companies[1067983] = ROWS
    answer = ask("BRK.B", "ZZZZQ", "MSFT")
    assert [row["symbol"] for row in answer.payload["companies"]] == ["BRK.B"]
    assert answer.payload["missing"] == [
        {"symbol": "ZZZZQ", "what": "filings", "reason": "unknown symbol ZZZZQ: EDGAR has no such ticker"},
        {"symbol": "MSFT", "what": "filings", "reason": "unknown symbol MSFT: EDGAR has no filings under its number"},
    ]


LIMITED = "the SEC limits our requests (try again in some minutes)"
FAULTS = {
    "limited": ((429, "slow down"), LIMITED),
    "refused": ((403, "<html>Your Request Originates from an Undeclared Automated Tool</html>"), "DESK_SEC_IDENTITY"),
    "down": ((503, "<html>maintenance</html>"), "the SEC does not answer for AAPL: status 503"),
    "html": ((200, "<html>maintenance</html>"), "the SEC's answer for AAPL could not be read: JSONDecodeError"),
    "half": ((200, '{"cik": "320193", "filings"'), "the SEC's answer for AAPL could not be read: JSONDecodeError"),
    "other": ((200, '{"cik": "320193"}'), "the SEC's answer for AAPL could not be read: KeyError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_is_asked_again_later(sec: FarSec, ask: Ask, fault: str) -> None:
    trouble, expected = FAULTS[fault]
    sec.companies[APPLE], sec.trouble = ROWS, trouble
    answer = ask("AAPL")
    assert not answer.has_data
    (gap,) = answer.payload["missing"]
    assert expected in gap["reason"]
    assert "ada@" not in answer.text()
    assert len(sec.asked) == 1
    sec.trouble = None
    assert ask("AAPL").has_data


def test_without_an_identity_or_the_extra_it_is_not_available(
    sec: FarSec, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gap,) = ask("AAPL", identity=None).payload["missing"]
    assert gap["what"] == "filings"
    assert gap["reason"].startswith('not available: configure DESK_SEC_IDENTITY="NAME MAIL"')
    uninstalled(monkeypatch)
    (gap,) = ask("AAPL").payload["missing"]
    assert (
        gap["reason"]
        == "not available: it needs the package edgartools, which is not installed; pip install 'chordesk[filings]'"
    )
    assert sec.asked == []


def test_a_replay_asks_for_none(market: ReplayMarket, make_context: MakeContext, call: Call, sec: FarSec) -> None:
    answer = call(make_context(market, sec_identity=IDENTITY), "sec_filings", symbols=["AAPL"])
    (gap,) = answer.payload["missing"]
    assert gap["reason"] == "not available in a replay: EDGAR is asked for the filings of now alone"
    assert sec.asked == []


def test_a_market_with_filings_of_its_own_is_asked_in_a_replay_too(call: Call) -> None:
    rows = [
        Filing(symbol="A", form="8-K", filed=at.date(), accession="1", url="https://x", known_at=at)
        for at in (NOW, NOW + dt.timedelta(seconds=1))
    ]
    answer = call(CompanyMarket(filed={"A": rows}), "sec_filings", symbols=["A"])
    assert [row["knownAt"] for row in answer.payload["companies"][0]["filings"]] == [NOW.isoformat()]
    assert "filingsSource" not in answer.payload


def test_an_identity_is_a_name_and_a_mail_address(tmp_path: Path) -> None:
    secret = load({"DESK_HOME": str(tmp_path), "DESK_SEC_IDENTITY": IDENTITY}, tmp_path).settings.sec_identity
    assert secret is not None
    assert IDENTITY not in repr(secret)
    for wrong in ("bob@corp.test", "Bob Builder", "Bob bob@corp", "Bob\nX-Header: 1 bob@corp.test"):
        with pytest.raises(Exception, match="must be a name and a mail address") as caught:
            load({"DESK_HOME": str(tmp_path), "DESK_SEC_IDENTITY": wrong}, tmp_path)
        assert wrong not in str(caught.value)


def test_a_worker_that_is_warm_can_load_edgartools(tmp_path: Path, sec: FarSec) -> None:
    """It has pandas without pyarrow, which edgartools needs."""
    sec.companies[APPLE] = ROWS
    code = (
        "from pathlib import Path\n"
        "from chordesk.tools.market.clock import LiveClock\n"
        "from chordesk.tools.model_tools.filings import Edgar\n"
        "from chordesk.tools.toolsets import warm\n"
        'warm("XNYS")\n'
        f"print(len(Edgar(Path({str(tmp_path)!r}), LiveClock(), {IDENTITY!r}).filings('AAPL')))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("4\n", "")
