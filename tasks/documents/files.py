"""The files of a run's report: HTML, markdown and JSON, and one JSON file a symbol."""

from __future__ import annotations

from typing import get_args

from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.documents.building.run import run_document
from chordesk.tasks.documents.places import OutputPlace
from chordesk.tasks.documents.rendering.formats import Format, rendered
from chordesk.tasks.documents.schema.documents import RunDocument
from chordesk.tasks.documents.schema.dossier import Dossier, SymbolFile

NAME = "report"
SYMBOLS = "symbols"


def write_run(desk: Desk, address: str, run_id: str) -> str:
    """Write the report of a run into a folder of its own at an address; return where. An older one of it is replaced.
    Raises NotFound, UsageError."""
    place = OutputPlace(address)
    found = run_document(desk, run_id)
    for one in found.symbols:
        place.write(_symbol_file(found, one).model_dump_json(indent=1) + "\n", f"{run_id}/{SYMBOLS}/{one.symbol}.json")
    for wanted in get_args(Format):
        place.write(rendered(found, wanted), f"{run_id}/{NAME}.{wanted}")
    return place.inside(run_id)


def _symbol_file(found: RunDocument, one: Dossier) -> SymbolFile:
    run = found.run
    return SymbolFile(
        format=found.format, version=found.version, run_id=run.run_id, run_kind=run.kind, run_state=run.state,
        market=run.market, market_now=run.market_now, made_at=found.made_at, dossier=one,
    )  # fmt: skip
