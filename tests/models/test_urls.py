"""Addresses as people may see them: never with a login or a secret parameter."""

from __future__ import annotations

import pytest

from chordesk.models.urls import masked


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6379/0", "redis://********@host:6379/0"),
        ("redis://secret@host:6379/0", "redis://********@host:6379/0"),
        ("rediss://me:se/cr?et#@host/0", "rediss://********@host/0"),
        ("redis://:se@cr@et@host", "redis://********@host"),
        ("postgresql+psycopg://desk:s%40cret@db:5432/desk", "postgresql+psycopg://********@db:5432/desk"),
        ("postgresql://db/desk?sslpassword=secret&sslmode=require", "postgresql://db/desk?sslpassword=********&sslmode=require"),
        ("https://example.org/v1?api_key=secret#secret", "https://example.org/v1?api_key=********"),
        ("https://example.org/v1?x=1&pass%77ord=secret", "https://example.org/v1?x=1&pass%77ord=********"),
        ("https://secret@example.org/v1?Access-Token=secret", "https://********@example.org/v1?Access-Token=********"),
        ("unix:///run/redis.sock?db=0&password=secret", "unix:///run/redis.sock?db=0&password=********"),
        ("unix://me:secret@/run/redis.sock?db=0", "unix://********@/run/redis.sock?db=0"),
        ("me:secret@host", "********@host"),
    ],
)  # fmt: skip
def test_a_possible_secret_is_hidden(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////home/me@work/desk.db",
        "sqlite:///desk.db",
        "unix:///run/me@work/redis.sock?db=0",
        "http://127.0.0.1:5555/v1",
        "redis://127.0.0.1:6379/0?socket_keepalive=1",
    ],
)
def test_parts_that_are_not_secret_stay(url: str) -> None:
    assert masked(url) == url
