"""An extra's packages are checked before one of them is loaded: there, and of a version that the desk can use."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from chordesk.models import features
from chordesk.models.errors import UsageError

WANTED = ["orjson>=3", "mcp>=1.29,<3; extra == 'mcp'", "httpx>=0.28; extra == 'events'"]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("1.30.0", ""),
        ("2.1.0", ""),
        ("1.28.1", "desk mcp needs mcp <3,>=1.29, and 1.28.1 is installed"),
        (None, "desk mcp needs the package mcp, which is not installed"),
    ],
)
def test_one_line_with_the_package_and_the_remedy(
    found: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if found is None or name != "mcp":  # no other extra is looked at
            raise PackageNotFoundError(name)
        return found

    monkeypatch.setattr(features, "requires", lambda _name: WANTED)
    monkeypatch.setattr(features, "version", version)
    if not words:
        features.require_extra("mcp", "desk mcp")
        return
    with pytest.raises(UsageError, match=words) as refused:
        features.require_extra("mcp", "desk mcp")
    assert refused.value.remedy.startswith("pip install 'chordesk[mcp]'")
