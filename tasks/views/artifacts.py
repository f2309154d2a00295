"""The pictures of a run: those that tools gave to its turns."""

from __future__ import annotations

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.artifacts import path_in_home
from chordesk.models.tables.runs import Artifact, ToolCall, Turn


class ArtifactRow(Frozen):
    """One picture. path: of its file, relative to the data folder of the worker that ran the turn; size in bytes."""

    id: str
    kind: str
    digest: str
    size: int
    path: str
    tool: str
    role: str
    subject: str
    turn_id: str


def artifacts(session: Session, run_id: str) -> list[ArtifactRow]:
    """Return a run's pictures in the order in which they were made."""
    rows = session.exec(
        select(Artifact, Turn, ToolCall.tool)
        .join(Turn, col(Turn.id) == col(Artifact.turn_id))
        .join(ToolCall, col(ToolCall.id) == col(Artifact.call_id))
        .where(Artifact.run_id == run_id)
        .order_by(col(Artifact.created_at), col(Artifact.id))
    ).all()
    return [
        ArtifactRow.of(artifact, turn, id=artifact.id, path=path_in_home(artifact.digest, artifact.kind), tool=tool)
        for artifact, turn, tool in rows
    ]
