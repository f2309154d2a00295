"""The report of a run over HTTP: of a screen that rules have finished, in each format."""

from __future__ import annotations

from chordesk.tasks.reports.report_schema import run_document_type
from tests.tasks.documents.reading import read
from tests.tasks.web.routes.history.conftest import Screened


def test_a_finished_screen_is_whole_in_each_format(screened: Screened) -> None:
    path = f"/runs/{screened.run_id}/report"
    html = screened.client.get(path)
    assert html.status_code == 200, html.text
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert html.headers["content-disposition"] == f'attachment; filename="screen-{screened.run_id[:16]}.html"'
    policy = html.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.endswith("frame-ancestors 'none'")
    found = read(html.text)
    made = run_document_type().model_validate(screened.get(path, format="json"))
    assert not made.in_flight
    symbols = [one.symbol for one in made.symbols]
    assert symbols
    assert found.tags.count("svg") >= len(symbols)
    assert {f"symbol-{symbol}" for symbol in symbols} <= set(found.ids)
    assert f"http://127.0.0.1:{screened.service.port}/#/runs/{screened.run_id}" in found.links
    text = screened.client.get(path, params={"format": "md"})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text.startswith(f"<!-- chordesk.report 1 -->\n# Screen {screened.run_id}: done\n")
