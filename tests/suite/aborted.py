"""A test whose process ends at once, and a failed one beside a desk that cannot be asked. Collected by name alone."""

from __future__ import annotations

import os

import pytest


class Unreachable:
    def told(self) -> str:
        raise ConnectionError("no Redis was started")


@pytest.fixture
def desk() -> Unreachable:
    return Unreachable()


def test_fails_beside_a_desk_that_cannot_be_asked(desk: Unreachable) -> None:
    raise AssertionError("the failure itself")


def test_aborts_its_process() -> None:
    os.abort()
