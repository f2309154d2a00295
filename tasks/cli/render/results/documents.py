"""Where a run's report was written, in a line."""

from __future__ import annotations

from rich.text import Text

from chordesk.models.states import DocumentState
from chordesk.tasks.cli.output import inert
from chordesk.tasks.views.history.documents import WrittenDocument


def document_line(found: WrittenDocument | None) -> Text | None:
    """Return the place of the report, or why it is not there; None where there is to be none."""
    if found is None:
        return None
    if found.state == DocumentState.WRITTEN:
        return Text.assemble(("Report ", "bold"), inert(found.place))
    if found.error is None:
        return Text.assemble(("Report ", "bold"), f"due at {inert(found.place)}")
    again = f"; tried again {found.next_try:%H:%M:%S} UTC" if found.next_try is not None else "; given up"
    why = f"not written after {found.tries} tries: {inert(found.error)}{again}"
    return Text.assemble(("Report ", "bold"), (why, "yellow"))
