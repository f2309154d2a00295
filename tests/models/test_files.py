from __future__ import annotations

from pathlib import Path

import pytest

from models.files import replacing


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file"
    for text in (b"first", b"second"):
        with replacing(path) as file:
            file.write(text)
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_a_torn_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def torn() -> None:
        with replacing(path) as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        torn()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
