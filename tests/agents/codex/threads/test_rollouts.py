"""Rollouts as they leave their home: without secrets, and still lines of JSON."""

from __future__ import annotations

import json

import pytest

from chordesk.agents.codex.rollouts import without


@pytest.mark.parametrize("secret", ["key-of-the-provider", 'key "with" signs\\', "schlüssel-der-wand"])
def test_a_secret_is_hidden_and_the_lines_stay_json(secret: str) -> None:
    data = b"".join(json.dumps({"message": f"refused: {secret}, again", "n": n}).encode() + b"\n" for n in range(3))
    hidden = without(data, [secret, "another-one"])
    assert [json.loads(line)["message"] for line in hidden.splitlines()] == ["refused: ********, again"] * 3


def test_other_text_stays() -> None:
    data = b'{"message": "a key that nobody knows"}\n'
    assert without(data, []) is data
    assert without(data, ["a"]) == data, "what is so short is no secret, and would be everywhere"
