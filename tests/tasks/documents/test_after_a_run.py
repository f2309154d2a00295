"""A desk with a place for reports writes that of a run after its end, by its own schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.tables.runs import RunDocumentCopy
from chordesk.tasks.reading.run_details import written_document
from chordesk.tasks.reports.report_schema import run_document_type
from chordesk.tasks.workflows.research import open_research
from tests.stack import processes, wait_for
from tests.tasks.documents.reading import read

pytestmark = pytest.mark.process


def test_the_report_of_a_run_is_there_soon_after_its_end(tmp_path: Path) -> None:
    place = tmp_path / "reports"
    with processes(DESK_REPORT_URL=str(place)) as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade", concurrency=4)
        run_id = open_research(desk.app, ["IBM", "KO"]).id
        store = desk.app.desk.store

        def written() -> RunDocumentCopy | None:
            with store.read() as session:
                found = written_document(session, run_id)
            return found if found is not None and found.written_at is not None else None

        wait_for(lambda: written() is not None, "the report is written")
        found = written()
    assert found is not None
    assert (found.state, found.place, found.tries) == ("written", str(place / run_id), 1)
    folder = place / run_id
    assert {path.name for path in (folder / "symbols").iterdir()} == {"IBM.json", "KO.json"}
    made = run_document_type().model_validate_json((folder / "report.json").read_text())
    assert not made.in_flight
    assert all(one.combined_rating for one in made.symbols)
    page = read((folder / "report.html").read_text())
    assert page.tags.count("svg") >= 2, "a worker of the queue ops has the prices, too"
    assert (folder / "report.md").read_text().startswith("<!-- chordesk.report 1 -->\n# Research ")
