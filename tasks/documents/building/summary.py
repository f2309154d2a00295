"""A symbol's summary: a few lines of markdown made by code from its verdict and reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chordesk.tasks.documents.schema.dossier import RoleArtifact
from chordesk.tasks.documents.text import marked
from chordesk.tasks.views.history.table import TableRow

_RISKS = 3


def summary(row: TableRow, artifacts: Sequence[RoleArtifact]) -> str:
    """Return the summary; texts of models in it are literal."""
    return "\n".join(_lines(row, artifacts)) + "\n"


def _lines(row: TableRow, artifacts: Sequence[RoleArtifact]) -> Iterator[str]:
    verdict = row.verdict
    judged = f"**{marked(verdict.rating)}** ({marked(verdict.confidence)})" if verdict else "no verdict"
    yield f"{marked(row.symbol)}: {judged}"
    if verdict is not None:
        yield f"\n{marked(verdict.summary)}"
    yield ""
    for one in artifacts:
        made = f"{one.verdict} ({one.confidence})" if one.verdict else one.status
        yield f"- {marked(one.role)}: {marked(made)}. {marked(one.summary or one.reason or '')}".rstrip()
    if verdict is not None and verdict.key_risks:
        yield f"- risks: {'; '.join(marked(risk) for risk in verdict.key_risks[:_RISKS])}"
    if verdict is not None and verdict.missing:
        yield f"- missing: {'; '.join(marked(one) for one in verdict.missing)}"
