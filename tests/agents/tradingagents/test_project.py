"""An installation is recognised by its registry, and anything else is an error with its remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.agents.tradingagents.project import INSTALL, find_project
from chordesk.models.errors import UsageError
from tests.agents.tradingagents.conftest import forget


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    forget()
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (path.parent / "__init__.py").touch()
    (folder / "tradingagents" / "__init__.py").touch()


def test_the_project_is_found_by_its_registry(project: Path) -> None:
    found = find_project()
    assert found.root == project
    assert list(found.providers) == ["openai"]
    assert found.menus is not None
    assert callable(found.command())


def test_a_missing_project_names_its_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tradingagents", None)  # Python's own mark of a module that is not there
    with pytest.raises(UsageError, match="TradingAgents is not installed") as caught:
        find_project()
    assert caught.value.remedy == INSTALL
    assert "git+https://github.com/TauricResearch/TradingAgents@v0.3.0" in INSTALL


@pytest.mark.parametrize(
    "files",
    [
        {"tradingagents__bot": "x = 1"},
        {"tradingagents__llm_clients__openai_client": "PROVIDERS = {}"},
        {"tradingagents__llm_clients__openai_client": "OPENAI_COMPATIBLE_PROVIDERS = {}"},
    ],
)
def test_another_project_of_the_name_is_refused(folder: Path, files: dict[str, str]) -> None:
    write(folder, **files)
    with pytest.raises(
        UsageError, match=r"is another project of the name tradingagents, or older than 0\.3\.0"
    ) as caught:
        find_project()
    assert str(folder / "tradingagents") in str(caught.value)
    assert caught.value.remedy.startswith("pip uninstall tradingagents, then pip install")


def test_a_project_without_one_of_its_libraries_names_that(folder: Path) -> None:
    write(folder, tradingagents__llm_clients__openai_client="import a_library_that_is_not_there")
    with pytest.raises(UsageError, match="does not load: No module named 'a_library_that_is_not_there'"):
        find_project()


def test_a_command_line_of_another_package_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "__init__.py").touch()
    (tmp_path / "cli" / "main.py").write_text("app = print", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="hides TradingAgents' own"):
        find_project().command()
