"""Number of examples of a property: the fast tests draw fewer of them."""

from __future__ import annotations

from hypothesis import settings

FAST = "fast"
FEW = 20


def begin_fast() -> None:
    """Let each property of this process have at most FEW examples. Call it before their modules are imported."""
    settings.register_profile(FAST, max_examples=FEW)
    settings.load_profile(FAST)


def examples(count: int) -> int:
    """Return the number of examples for a property that has so many in a whole run."""
    return min(count, FEW) if settings.get_current_profile_name() == FAST else count
