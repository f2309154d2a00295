"""The far side of edgartools' wire: a loopback server that answers as the SEC's archive does."""

from __future__ import annotations

import json
import threading
from http.server import ThreadingHTTPServer
from typing import Any

from tests.fakes.serving import PromptHandler

# Of each filing, one value in a column.
COLUMNS = (
    *("accessionNumber", "filingDate", "reportDate", "acceptanceDateTime", "act", "form", "fileNumber", "filmNumber"),
    *("items", "core_type", "size", "isXBRL", "isInlineXBRL", "primaryDocument", "primaryDocDescription"),
)
_ADDRESS = dict.fromkeys(("street1", "street2", "city", "stateOrCountry", "zipCode", "stateOrCountryDescription"), "")
_TEXTS = (
    *("sic", "sicDescription", "ein", "description", "website", "investorWebsite", "category", "fiscalYearEnd"),
    *("stateOfIncorporation", "stateOfIncorporationDescription", "phone", "flags"),
)


class SecHandler(PromptHandler):
    server: FarSec

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.agents.add(self.headers["User-Agent"])
        status, text = self.server.answer(self.path)
        payload = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if text.startswith("<") else "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class FarSec(ThreadingHTTPServer):
    """companies: filings, newest first, by CIK. tickers: CIKs of names that edgartools' own list lacks. trouble:
    (status, text) for all requests. agents: the User-Agent headers that came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SecHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.clear()

    def clear(self) -> None:
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.companies: dict[int, list[dict[str, Any]]] = {}
        self.tickers: dict[str, int] = {}
        self.trouble: tuple[int, str] | None = None

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, path: str) -> tuple[int, str]:
        if self.trouble is not None:
            return self.trouble
        if path == "/files/company_tickers.json":
            rows = [{"ticker": ticker, "cik_str": cik, "title": ticker} for ticker, cik in self.tickers.items()]
            return 200, json.dumps(dict(enumerate(rows)))
        if path == "/files/company_tickers_mf.json":
            return 200, json.dumps({"data": []})
        for cik, filings in self.companies.items():
            if path == f"/submissions/CIK{cik:010d}.json":
                return 200, json.dumps(submissions(cik, filings))
        return 404, "<html>not found</html>"


def filing(form: str, filed: str, accepted: str, number: int, **columns: Any) -> dict[str, Any]:
    """Return one filing as a row of the archive's answer."""
    row = dict.fromkeys(COLUMNS, "") | {"size": 1, "isXBRL": 1, "isInlineXBRL": 1, "form": form, "core_type": form}
    given = {"filingDate": filed, "acceptanceDateTime": accepted, "primaryDocument": f"doc{number}.htm"}
    return row | given | {"accessionNumber": f"0000320193-24-{number:06d}", **columns}


def submissions(cik: int, filings: list[dict[str, Any]]) -> dict[str, Any]:
    recent = {name: [row[name] for row in filings] for name in COLUMNS}
    older = {"name": f"CIK{cik:010d}-submissions-001.json", "filingCount": 1, "filingFrom": "1994-01-26"}
    return {
        **dict.fromkeys(_TEXTS, ""),
        "cik": str(cik),
        "entityType": "operating",
        "name": "A company",
        "tickers": [],
        "exchanges": [],
        "addresses": {"mailing": _ADDRESS, "business": _ADDRESS},
        "formerNames": [],
        "insiderTransactionForOwnerExists": 0,
        "insiderTransactionForIssuerExists": 1,
        "filings": {"recent": recent, "files": [{**older, "filingTo": "2014-01-01"}]},
    }
