"""Questions to the server of a process's metrics and health."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.patience import PATIENCE


def ask(port: int, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, str]:
    """Status and text of an answer."""
    request = urllib.request.Request(f"http://{host}:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def health(port: int, path: str = "/health") -> tuple[int, dict[str, Any]]:
    """Status and JSON of a health check."""
    status, text = ask(port, path)
    return status, json.loads(text)
