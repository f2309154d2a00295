"""The report of a run over HTTP: of a screen that rules have finished, in each format."""

from __future__ import annotations

from chordesk.tasks.reports.schema import RunDocument
from tests.tasks.documents.reading import read
from tests.tasks.views.chain import parts
from tests.tasks.web.routes.history.conftest import Screened
from tests.tasks.web.test_security import problem

SESSIONS = 220  # of a chart of the replay, at least
PATHS = ("range", "rose", "fell")
LARGEST_CHART = 16_000  # characters


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
    made = RunDocument.model_validate(screened.get(path, format="json"))
    assert not made.in_flight
    symbols = [one.symbol for one in made.symbols]
    assert symbols
    assert found.tags.count("svg") >= len(symbols)
    assert {f"symbol-{symbol}" for symbol in symbols} <= set(found.ids)
    assert f"http://127.0.0.1:{screened.service.port}/#/runs/{screened.run_id}" in found.links
    text = screened.client.get(path, params={"format": "md"})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text.startswith(f"<!-- chordesk.report 1 -->\n# Screen {screened.run_id}: done\n")


def test_the_charts_are_drawn_and_bounded(screened: Screened) -> None:
    html = screened.client.get(f"/runs/{screened.run_id}/report").text
    charts = [part.partition("</svg>")[0] for part in html.split('<svg class="chart"')[1:]]
    assert charts
    for chart in charts:
        assert len(chart) < LARGEST_CHART
        drawn = {name: chart.split(f'class="{name}" d="')[1].partition('"')[0].count("M") for name in PATHS}
        assert drawn["range"] >= SESSIONS
        assert drawn["rose"] + drawn["fell"] == drawn["range"]
    assert any('class="mark hit"' in chart for chart in charts)
    assert any('class="mark verdict"' in chart for chart in charts)
    assert any('class="mark order"' in chart for chart in charts)


def test_its_figures_are_those_of_the_views(screened: Screened) -> None:
    made = RunDocument.model_validate(screened.get(f"/runs/{screened.run_id}/report", format="json"))
    run = screened.get(f"/runs/{screened.run_id}")
    assert (made.totals.turns, made.totals.tokens) == (run["progress"]["turns"], run["progress"]["tokens"])
    assert sum(one.turns for one in made.totals.roles) == made.totals.turns
    assert made.totals.cost.rules
    table = {row["candidate"]["symbol"]: row for row in screened.get(f"/runs/{screened.run_id}/table")["rows"]}
    assert [one.symbol for one in made.symbols] == list(table)
    for one in made.symbols:
        lineage = screened.get(f"/runs/{screened.run_id}/lineage/{one.symbol}")
        assert one.combined_rating == table[one.symbol]["verdict"]["rating"]
        assert {row.report.id for row in one.artifacts} >= {row["id"] for row in parts(lineage, "report")}
        known = {
            (row["thread_id"], row["codex_turn_id"]) for row in lineage["nodes"] if row["kind"] in ("hit", "report")
        }
        assert known <= {(step.thread_id, step.codex_turn_id) for step in one.lineage}
        assert {row.order.id for row in one.orders} == {row["id"] for row in parts(lineage, "order")}
        assert one.name
    missing = {(one.symbol, one.role) for one in made.missing if one.what == "report"}
    assert ("KO", "fundamentals") in missing or missing, "the replay has no figures of companies"


def test_wrong_ones_are_refused(screened: Screened) -> None:
    assert problem(screened.client.get("/runs/nope/report"), 404) == "not_found"
    assert problem(screened.client.get(f"/runs/{screened.run_id}/report?format=pdf"), 422) == "wrong_request"
    assert screened.client.get(f"/runs/{screened.run_id}/report", headers={"Authorization": "x"}).status_code == 401
