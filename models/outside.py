"""Bounds on what is read from outside: bytes that are unpacked, lines, members of archives, fields of a row.

Every reader of files, archives and answers of others takes its bounds from here, so that a small file cannot fill the
memory or the disk.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import IO

MOST_BYTES = 4 << 30  # of what an archive or a file becomes
MOST_HELD = 256 << 20  # of what is held in memory at once: a JSON document, a member of an archive
MOST_LINE = 8 << 20
MOST_CELL = 1 << 20
MOST_RECORD = 64 << 20  # of a line of our own formats, such as a kept turn
MOST_FIELDS = 16_384  # of a row or of a record: the columns of a spreadsheet
MOST_MEMBERS = 100_000
MOST_ROWS = 100_000_000  # of a Parquet file, whose rows may take next to nothing
MOST_RATIO = 300  # of unpacked to packed bytes; text packs 3 to 30 times
FREE_BYTES = 64 << 10  # that a file may unpack to whatever it was: a column of equal numbers packs 1,000 times
_CHUNK = 1 << 18


class Oversized(ValueError):
    """What was read from outside is larger than its bound; the message says by how much."""


def require(what: str, count: int, most: int, unit: str = "bytes") -> None:
    """Raise Oversized if there is more than so much of something."""
    if count > most:
        raise Oversized(f"{what} has {count:,} {unit}, more than {most:,}")


def require_ratio(what: str, unpacked: int, packed: int) -> None:
    """Raise Oversized for what unpacks to MOST_RATIO times itself, FREE_BYTES excepted."""
    if unpacked > FREE_BYTES and unpacked > MOST_RATIO * max(packed, 1):
        raise Oversized(f"{what} would be {unpacked:,} bytes of {packed:,}, as in a zip bomb")


def inflated(what: str, packed: bytes, most: int = MOST_HELD, *, window: int = zlib.MAX_WBITS) -> bytes:
    """Return the content of zlib data. window: 31 for gzip. Raises Oversized for more than `most` bytes, without having
    made more than a chunk beyond, and zlib.error for what is damaged or ends early."""
    unpacker, parts, size, rest = zlib.decompressobj(window), [], 0, packed
    while rest or not unpacker.eof:
        part = unpacker.decompress(rest, _CHUNK)
        size += len(part)
        require(what, size, most)
        require_ratio(what, size, len(packed))
        parts.append(part)
        rest = unpacker.unconsumed_tail
        if not part and not rest:
            break
    if not unpacker.eof:
        raise zlib.error("incomplete or truncated stream")
    return b"".join(parts)


def lines(what: str, file: IO[bytes], most: int = MOST_LINE, total: int = MOST_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file. Raises Oversized, without reading on, if a line has more than `most` bytes or
    the file more than `total`."""
    size = 0
    while line := file.readline(most + 1):
        require(f"a line of {what}", len(line), most)
        size += len(line)
        require(what, size, total)
        yield line


def copied(what: str, source: IO[bytes], target: IO[bytes], most: int) -> int:
    """Copy a stream and return its size. Raises Oversized when more than `most` bytes came."""
    size = 0
    while part := source.read(_CHUNK):
        size += len(part)
        require(what, size, most)
        target.write(part)
    return size


def held(what: str, file: IO[bytes], most: int = MOST_HELD) -> bytes:
    """Return a stream's content. Raises Oversized, without reading on, after `most` bytes."""
    content = file.read(most + 1)
    require(what, len(content), most)
    return content


def require_lines(what: str, chunks: Iterable[bytes], most: int = MOST_LINE) -> None:
    """Raise Oversized if there is a line of more than `most` bytes, whichever way lines end."""
    run = 0
    for chunk in chunks:
        first = min((at for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0), default=-1)
        run += len(chunk) if first < 0 else first
        require(f"a line of {what}", run, most)
        if first >= 0:
            run = len(chunk) - 1 - max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
