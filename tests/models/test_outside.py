"""Bounds on what is read from outside: a small file fills neither memory nor disk."""

from __future__ import annotations

import io
import zlib

import pytest

from chordesk.models.outside import FREE_BYTES, Oversized, copied, held, inflated, lines, require_lines, require_ratio
from chordesk.models.text import csv_cell, from_csv_cell


def test_what_unpacks_far_is_refused_before_it_is_unpacked() -> None:
    text = bytes(range(256)) * 4096
    assert inflated("x", zlib.compress(text)) == text
    bomb = zlib.compress(bytes(200 << 20))
    with pytest.raises(Oversized, match="as in a zip bomb"):
        inflated("x", bomb)
    with pytest.raises(Oversized, match="more than 1,000"):
        inflated("x", zlib.compress(text), 1000)
    with pytest.raises(zlib.error):
        inflated("x", zlib.compress(text)[:-9])
    require_ratio("x", FREE_BYTES, 1)
    with pytest.raises(Oversized):
        require_ratio("x", 1 << 20, 2000)


def test_a_long_line_is_not_read_whole() -> None:
    class Endless(io.RawIOBase):
        read_bytes = 0

        def readable(self) -> bool:
            return True

        def readinto(self, into: object) -> int:
            size = len(into)  # type: ignore[arg-type]
            into[:] = b"x" * size  # type: ignore[index]
            self.read_bytes += size
            return size

    source = Endless()
    with pytest.raises(Oversized, match="a line of x"):
        list(lines("x", io.BufferedReader(source), most=1 << 16))
    assert source.read_bytes < 1 << 18
    with pytest.raises(Oversized, match="a line of x"):
        require_lines("x", [b"short\n", b"y" * 80, b"y" * 80], most=100)
    require_lines("x", [b"short\n", b"y" * 80 + b"\r", b"y" * 80], most=100)
    with pytest.raises(Oversized):
        held("x", io.BytesIO(b"12345"), 4)
    with pytest.raises(Oversized):
        copied("x", io.BytesIO(b"12345"), io.BytesIO(), 4)


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+a", "-a", "@a", "\t=1", "\r=1", "-5 % in a day"])
def test_a_cell_that_is_a_formula_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"
    assert from_csv_cell(csv_cell(text)) == text


@pytest.mark.parametrize("value", [-5, -5.25, "-5.25", "+1e-3", "", None, "a=b", "'tis"])
def test_numbers_and_other_text_stay(value: object) -> None:
    assert csv_cell(value) is value
    if isinstance(value, str):
        assert from_csv_cell(value) == value
