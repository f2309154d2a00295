"""What a process keeps of the memory that it freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ARENAS_OF_THREADS = """
import ctypes, threading
from chordesk.models import heap
{first}
together, kept = threading.Barrier(12), []
def allocate():
    together.wait()
    kept.append([bytes(2000) for _ in range(200)])
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for each in threads: each.start()
for each in threads: each.join()
heap.trim()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_many_threads_share_few_arenas_where_that_is_asked_for() -> None:
    def arenas(first: str) -> int:
        code = ARENAS_OF_THREADS.format(first=first)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.count("<heap nr=")

    assert arenas("heap.share_arenas()") <= 2 < arenas("")
