"""The far side of Interactive Brokers' Flex Web Service: a loopback server with its two requests and its habits."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.fakes.serving import PromptHandler

_ANSWER = "<FlexStatementResponse timestamp='28 November, 2026 10:00 AM EST'>\n{}</FlexStatementResponse>"


def says(code: str, words: str, status: str = "Fail") -> str:
    return _ANSWER.format(
        f"<Status>{status}</Status>\n<ErrorCode>{code}</ErrorCode>\n<ErrorMessage>{words}</ErrorMessage>\n"
    )


NOT_YET = says("1019", "Statement generation in progress. Please try again shortly.", "Warn")


class _Handler(PromptHandler):
    server: FarFlex

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        given = {name: one[0] for name, one in parse_qs(where.query).items()}
        self.server.asked.append((where.path.rpartition("/")[2], given))
        status, text, cut = self.server.answer(where.path.rpartition("/")[2], given)
        payload = text.encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://127.0.0.1:1/{self.path}")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if cut else payload)
        self.close_connection = cut


class FarFlex(ThreadingHTTPServer):
    """token: that it knows. document: of the query. first: what it says before, each once: the text of an answer, the
    number of a status, or "cut" for half of its next answer."""

    def __init__(self, token: str, document: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/FlexWebService"
        self.token, self.document = token, document
        self.first: list[str | int] = []
        self.asked: list[tuple[str, dict[str, str]]] = []

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, what: str, given: dict[str, str]) -> tuple[int, str, bool]:
        said = self.first.pop(0) if self.first else ""
        if isinstance(said, int):
            return said, "<html>busy</html>", False
        if said and said != "cut":
            return 200, said, False
        return 200, self._answer(what, given), said == "cut"

    def _answer(self, what: str, given: dict[str, str]) -> str:
        if given.get("t") != self.token:
            return says("1015", "Token is invalid.")
        if what == "SendRequest":
            if given.get("q") != "777":
                return says("1014", "Query is invalid.")
            return _ANSWER.format("<Status>Success</Status>\n<ReferenceCode>4242</ReferenceCode>\n<Url>elsewhere</Url>")
        return self.document if given.get("q") == "4242" else says("1017", "Reference code is invalid.")
