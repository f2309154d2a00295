"""Recorder and player between the desk and an app-server, as an executable of its own.

`wire.py record REAL FILE ...` runs the real binary and writes down, in order, what goes each way, one JSON line each.
`wire.py play REAL FILE ...` is the far side of such a file: it sends the recorded messages, and ends when it receives
one that was not recorded. Anything but `app-server` among the arguments is the real binary's to answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

TO_SERVER, TO_CLIENT = "to_server", "to_client"
UNEXPECTED = 3
HOME = "/desk"  # what the folder above CODEX_HOME is called in a stream


def record(real: str, file: str, arguments: list[str]) -> int:
    """Copies lines both ways until the real process ends; gives its exit code."""
    process = subprocess.Popen([real, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lock = threading.Lock()

    def copy(source: IO[bytes], sink: IO[bytes], direction: str) -> None:
        for line in iter(source.readline, b""):
            with lock, open(file, "a", encoding="utf-8") as log:
                log.write(json.dumps({direction: json.loads(line)}) + "\n")
            sink.write(line)
            sink.flush()
        sink.close()

    assert process.stdin is not None
    assert process.stdout is not None
    threading.Thread(target=copy, args=(sys.stdin.buffer, process.stdin, TO_SERVER), daemon=True).start()
    copy(process.stdout, sys.stdout.buffer, TO_CLIENT)
    return process.wait()


def play(file: str, plain: Callable[[Any], Any]) -> int:
    """Plays the far side. plain: what a message of ours is made into before it is compared."""
    ids: dict[Any, Any] = {}
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        ((direction, message),) = json.loads(line).items()
        if direction == TO_CLIENT:
            if "method" not in message:
                message["id"] = ids[message["id"]]
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
            continue
        received = json.loads(sys.stdin.readline() or "null")
        if received is None:
            return 0  # the desk has gone, as it does when a process is to end
        if "method" in received and "id" in received:
            ids[message.get("id")] = received["id"]
        if {**plain(received), "id": 0} != {**message, "id": 0}:
            sys.stderr.write(f"expected {json.dumps(message)}, received {json.dumps(plain(received))}\n")
            return UNEXPECTED
    for _ in _rest():
        pass
    return 0


def _rest() -> Iterator[str]:
    """Yield what comes after the end of the recorded stream, until the desk closes it."""
    yield from sys.stdin


def main(arguments: list[str]) -> int:
    mode, real, file, *rest = arguments
    if "app-server" not in rest:
        os.execv(real, [real, *rest])
    if mode == "record":
        return record(real, file, rest)
    home = str(Path(os.environ["CODEX_HOME"]).parent)
    return play(file, lambda message: json.loads(json.dumps(message).replace(home, HOME)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
