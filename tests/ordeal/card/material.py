"""What each look at the loop's material answers: 99 texts of 2,111 tokens or so, 209,000 in all, of words that do not
repeat, since a database packs what does."""

from __future__ import annotations

import random

CALLS = 100
LOOKS = CALLS - 1
TOKENS = 209_000
CHARACTERS = TOKENS * 4 // LOOKS


def text(number: int) -> str:
    draw = random.Random(number)
    found = ""
    while len(found) < CHARACTERS:
        found += "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) + " "
    return found[:CHARACTERS]
