"""Prose as people and programs may see it: without what looks like a secret, and otherwise as it was."""

from __future__ import annotations

import time

import pytest

from chordesk.models.text import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-live-0123456789abcdef, see", "Incorrect API key provided: ********, see"),
        ("the key sk-proj-a1B2c3D4e5 is no longer valid", "the key ******** is no longer valid"),
        ('{"api_key": "abcdef123"}', '{"api_key": "********"}'),
        ("url: https://desk:pw12345@host/v1?api_key=zzzzzz", "url: https://desk:********@host/v1?api_key=********"),
        ("GET /v1?token=abc failed, try again", "GET /v1?token=******** failed, try again"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer ********"),
    ],
)
def test_a_possible_secret_is_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "unexpected status 503 Service Unavailable: try again in 1m 2.5s",
        "a risk-adjusted return of 12 %, task-12345678 and disk-usage",
        "the api key: missing; the password: required",
        "mail me@example.org",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize("text", ["?key", "://a", "&a", "s-", "sk-", "api key ", "api key: ", "://a:", "bearer "])
def test_a_long_text_that_only_looks_so_takes_no_time(text: str) -> None:
    began = time.process_time()
    without_secrets(text * (4_000 // len(text)))
    assert time.process_time() - began < 0.5
