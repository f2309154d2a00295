"""`GET /toys`."""

from fastapi import APIRouter

router = APIRouter(tags=["toys"])


@router.get("/toys")
def toys() -> dict[str, int]:
    """Count the toys."""
    return {"toys": 3}
