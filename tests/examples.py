"""Number of examples of a property: the fast tests draw few of them, the deep ones many."""

from __future__ import annotations

from hypothesis import settings

BOUNDS = {"fast": (0, 10), "whole": (0, 40), "deep": (200, 100_000)}  # the least and the most examples of a property
# How long an example takes is the machine's doing.
settings.register_profile("whole", max_examples=BOUNDS["whole"][1], deadline=None)
settings.load_profile("whole")


def begin(profile: str) -> None:
    """Let each property of this process keep to a profile's bounds. Call it before their modules are imported."""
    settings.register_profile(profile, max_examples=BOUNDS[profile][0] or BOUNDS[profile][1], deadline=None)
    settings.load_profile(profile)


def examples(count: int) -> int:
    """Return the number of examples for a property that has so many in a whole run."""
    least, most = BOUNDS[str(settings.get_current_profile_name())]
    return min(max(count, least), most)


FIXED_SEED = 31
PART = 40  # of the deep tests' malformed inputs, a whole run takes one of so many


def is_deep() -> bool:
    return settings.get_current_profile_name() == "deep"


def malformed_count(deep: int) -> int:
    return deep if is_deep() else max(deep // PART, 1)
