"""What it fetches by itself: each reaches for a network."""

from __future__ import annotations

from typing import Any
from urllib.request import urlopen

HOST = "http://data.example.invalid"


def fetch(what: str, *given: Any) -> str:
    with urlopen(f"{HOST}/{what}", timeout=1) as answer:
        return str(answer.read())
