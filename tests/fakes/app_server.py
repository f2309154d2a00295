"""The far side of the app-server's pipe, for what the real binary does not do on demand.

Run as `python app_server.py MODE`: reads JSON lines, answers `initialize`, then plays its mode.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def silent(message: dict[str, Any], _count: int) -> None:
    """Never answers."""


def overloaded(message: dict[str, Any], count: int) -> None:
    """Refuses a method twice, then answers it."""
    if count <= 2:
        send({"id": message["id"], "error": {"code": -32001, "message": "overloaded"}})
    else:
        send({"id": message["id"], "result": {"attempts": count}})


def asks(message: dict[str, Any], count: int) -> None:
    """Sends the server request the caller names, and answers with what came back."""
    if count == 1 and "method" in message:
        params = message["params"]
        send({"id": f"ask-{message['id']}", "method": params["method"], "params": params.get("params", {})})
        reply = json.loads(sys.stdin.readline())
        send({"id": message["id"], "result": {"reply": reply}})


def noisy(message: dict[str, Any], _count: int) -> None:
    """Unknown notifications, garbage, an empty line, a long line, then the answer."""
    send({"method": "never/heard/of", "params": {"threadId": "x"}})
    send({"id": 999_999, "result": {}})
    sys.stdout.write("this is no JSON\n\n")
    sys.stdout.flush()
    send({"id": message["id"], "result": {"long": "x" * 3_000_000}})


def huge(message: dict[str, Any], count: int) -> None:
    """Answers, asks and notifies with a line of 64 MB, once each; then as told."""
    text = "x" * (64 << 20)
    if count == 1:
        send({"id": message["id"], "result": {"long": text}})
    elif count == 2:
        send({"method": "item/completed", "params": {"long": text}})
        send({"id": "ask", "method": "item/tool/call", "params": {"long": text}})
        reply = json.loads(sys.stdin.readline())
        send({"id": message["id"], "result": {"reply": reply}})


def fed(message: dict[str, Any], _count: int) -> None:
    """Writes the lines of a file, then the answer."""
    with open(sys.argv[2], "rb") as file:
        sys.stdout.buffer.write(file.read())
    send({"id": message["id"], "result": {"fed": True}})


def crashing(_message: dict[str, Any], _count: int) -> None:
    """Floods stderr and ends, by a signal where one is named."""
    for number in range(20_000):
        sys.stderr.write(f"line {number} of the end\n")
    sys.stderr.write("the disk is full\n")
    sys.stderr.flush()
    if sys.argv[2:]:
        os.kill(os.getpid(), int(sys.argv[2]))
    sys.exit(3)


def stubborn(_message: dict[str, Any], _count: int) -> None:
    """Ignores the end of its input."""
    time.sleep(600)


def main() -> None:
    modes = (silent, overloaded, asks, noisy, huge, fed, crashing, stubborn)
    mode = {each.__name__: each for each in modes}[sys.argv[1]]
    counts: dict[str, int] = {}
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method", "")
        if method == "initialize":
            send({"id": message["id"], "result": {"capabilities": message["params"]["capabilities"]}})
        elif method != "initialized":
            counts[method] = counts.get(method, 0) + 1
            mode(message, counts[method])


if __name__ == "__main__":
    main()
