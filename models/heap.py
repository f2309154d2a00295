"""What glibc keeps of the memory that a process has freed; elsewhere these do nothing.

Each thread that allocates gets an arena of its own, up to eight a processor, and what is freed in one is of no use to
the others. The long texts of kept threads pass through any of a worker's threads, so that each arena grew to the
largest of them: a research worker that was never idle gained 125 MB over 140 screens, most of them free, while its
objects stayed as many as they were.
"""

from __future__ import annotations

import contextlib
import ctypes

_M_ARENA_MAX = -8  # of malloc.h
ARENAS = 2  # threads that hold the interpreter's lock one after the other do not contend for them


def share_arenas() -> None:
    """Let all threads share a few arenas. Call it before the first thread starts: an arena is never given up."""
    with contextlib.suppress(OSError, AttributeError):  # AttributeError: another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


def trim() -> None:
    """Give the free pages back to the system. Some 10 ms."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
