"""Malformed input by a grammar of its own: good examples, bent in the ways that break parsers."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

ODD = (
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\n", b"\x1b[31m", "\u202e".encode(), b"\\u0000", b"\\ud800", b'"',
    b"'", b"%00", b"%", b"..", b"/", b"{", b"}", b"[", b"]", b",", b":", b"-", b"NaN", b"1e999", b"-0", b"5_0", b"null",
    b"9" * 400, b"A" * 5000, b" " * 3000,
)  # fmt: skip
VALUES: Sequence[object] = (
    None, True, -1, 0, 2**63, 2**64, 10**300, 1.5, float("nan"), float("inf"), "", "\0", "\ud800", "a" * 70_000,
    "\u202e", [], {}, [[]], {"": {}}, {"a": None}, ["\x9b"], "../../etc/passwd", "' or 1=1 --", "%", "_",
)  # fmt: skip


def bent(chance: random.Random, good: bytes) -> bytes:
    """Good bytes with one to four mistakes."""
    found = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        at, end = sorted(chance.choices(range(len(found) + 1), k=2))
        match chance.randrange(6):
            case 0:
                found[at:at] = chance.choice(ODD)
            case 1:
                found[at:end] = b""
            case 2:
                found[at:at] = found[at:end] * chance.randint(1, 3)
            case 3:
                found[at:end] = chance.choice(ODD)
            case 4 if found:
                found[at % len(found)] ^= 1 << chance.randrange(8)
            case _:
                found[at:at] = chance.randbytes(chance.randint(1, 40))
    return bytes(found)


def bent_json(chance: random.Random, good: object) -> bytes:
    """A good value as JSON with another value somewhere in it, nested deep, or with broken text."""
    match chance.randrange(5):
        case 0:
            return bent(chance, json.dumps(good).encode())
        case 1:
            deep = chance.choice((40, 500, 20_000))
            opened, closed = chance.choice((("[", "]"), ('{"a":', "}")))
            inner = opened * deep + ("1" + closed * deep if chance.random() < 0.5 else "")
            return json.dumps(_replaced(chance, good, "DEEP")).replace('"DEEP"', inner).encode()
        case _:
            return json.dumps(_replaced(chance, good, chance.choice(VALUES))).encode()


def _replaced(chance: random.Random, value: object, other: object) -> object:
    """A value with another one in the place of a part of it, or beside it."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        if chance.random() < 0.15:
            return {**value, chance.choice(("", "extra", "\0", "__proto__")): other}
        return {**value, key: _replaced(chance, value[key], other)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _replaced(chance, value[at], other), *value[at + 1 :]]
    return other
