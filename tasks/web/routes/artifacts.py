"""Route of artifacts: the bytes of a picture that a tool gave to a turn."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from sqlmodel import select

from chordesk.models.database.artifacts import path_in_home, removed_at, stored
from chordesk.models.errors import NotFound
from chordesk.models.tables.runs import Artifact
from chordesk.tasks.web.context import Context

router = APIRouter(tags=["runs"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the bytes")]


@router.get(
    "/artifacts/{digest}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "The bytes of the picture."}},
)
def artifact(context: Context, digest: Digest) -> Response:
    """Show a picture that a tool gave to a turn."""
    with context.store.read() as session:
        kind = session.exec(select(Artifact.kind).where(Artifact.digest == digest).limit(1)).first()
    if kind is None:
        raise NotFound(f"there is no artifact {digest}", remedy="a run lists its artifacts with their digests")
    data = stored(context.settings.home, digest, kind)
    if data is None and (at := removed_at(context.settings.home, path_in_home(digest, kind))) is not None:
        remedy = "pictures are kept for DESK_KEEP_ARTIFACT_DAYS after their run; its row and figures stay"
        raise NotFound(f"the file of artifact {digest} was removed on {at:%Y-%m-%d}", remedy=remedy)
    if data is None:
        remedy = "it is in the data folder of the worker that ran the turn"
        raise NotFound(f"the file of artifact {digest} is not here, or not as it was", remedy=remedy)
    return Response(data, media_type=kind)
