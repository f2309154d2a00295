"""`GET /toys`."""

from fastapi import APIRouter

from chordesk.plugins import JsonRoute

router = APIRouter(tags=["toys"], route_class=JsonRoute)


@router.get("/toys")
def toys() -> dict[str, int]:
    """Count the toys."""
    return {"toys": 3}
