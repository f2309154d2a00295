"""Links, files, commands and settings that the documents mention exist."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import typer.main

from chordesk.models.settings import ALIASES, Settings
from chordesk.models.settings.variables import SECRET_FILES
from chordesk.tasks.cli.root import build
from tests.docs import absent
from tests.stack import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *PAGES]
# What a reader makes by following docs/contributing.md.
EXAMPLES = {
    "tools/model_tools/price_range.py",
    "tools/market/echo.py",
    "tests/tools/test_price_range.py",
    "agents/prompts/liquidity.md",
    "agents/rulebook/policies/liquidity.py",
    "tasks/workflows/checkup.py",
}
# A path of the repository in backticks. One with a capital letter in it (tools/NAME.py) is to be filled in.
_PATH = re.compile(r"`((?:models|tools|agents|tasks|tests|docs|deploy|requirements)/[a-z0-9_./*-]*)`")
# A module in backticks, perhaps with a name of it.
_MODULE = re.compile(r"`(?:chordesk\.)?((?:models|tools|agents|tasks)(?:\.[a-z_]+)+)[`.]")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_COMMAND = re.compile(r"(?:^|[`\s/])desk ([a-z]+)")
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
ROOMS = ("models", "tools", "agents", "tasks")
_SETTING = re.compile(r"\bDESK_[A-Z0-9_]+\b")


def name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def anchors(page: Path) -> set[str]:
    """The ids that the page's headings have."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def each(pattern: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    """What a pattern finds on all pages, with the page."""
    for page in ALL:
        for found in set(pattern.findall(page.read_text(encoding="utf-8"))):
            yield page, found


def test_every_link_leads_somewhere() -> None:
    for page, link in each(_LINK):
        where = f"{name(page)}: {link}"
        assert not link.startswith("http"), f"{where}: the pages need no other host"
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{where} leads nowhere"
        assert not anchor or anchor in anchors(found), f"{where}: there is no such heading"


def test_every_file_that_is_mentioned_exists() -> None:
    gone = [(name(page), path) for page, path in each(_PATH) if not list(REPOSITORY.glob(path.rstrip("/")))]
    assert [(page, path) for page, path in gone if path not in EXAMPLES and not absent.is_absent(path)] == []


def test_every_module_that_code_mentions_exists() -> None:
    there = {path.with_suffix("") for room in ROOMS for path in (REPOSITORY / room).rglob("*.py")}
    gone = []
    for path in (path for room in ROOMS for path in (REPOSITORY / room).rglob("*.py")):
        for named in _MODULE.findall(path.read_text(encoding="utf-8")):
            place = REPOSITORY.joinpath(*named.split("."))
            if not (there & {place, place.parent} or place.is_dir()):
                gone.append((name(path), named))
    assert gone == []


def test_every_command_that_is_mentioned_exists() -> None:
    commands = getattr(typer.main.get_command(build()), "commands")  # noqa: B009
    mentioned = {(name(page), command) for page, part in each(_CODE) for command in _COMMAND.findall(part)}
    unknown = {(page, command) for page, command in mentioned if command not in {*commands, *absent.COMMANDS}}
    assert unknown == {("docs/packages.md", "checkup")}, "the example package's own is no fault"


def test_no_remedy_or_page_names_the_binary_s_own_commands() -> None:
    """It lies deep among the packages: only the commands of `desk` are on the PATH."""
    sources = [path for room in ROOMS for path in (REPOSITORY / room).rglob("*.py")]
    commands = getattr(typer.main.get_command(build()), "commands")  # noqa: B009
    for path in (*sources, *ALL):
        text = path.read_text(encoding="utf-8")
        assert "codex login" not in text, name(path)
        named = set(re.findall(r"`desk ([a-z]+)", text)) if path.suffix == ".py" else set()
        assert named <= {*commands, *absent.COMMANDS}, name(path)


def test_every_setting_that_is_mentioned_exists() -> None:
    others = {"DESK_CONFIG", "DESK_FEATURES_OFF", "DESK_MIGRATE_URL"}  # the last is read where secrets are made
    others |= {"DESK_TRADINGAGENTS"}  # read by tests alone
    others |= {"DESK_RANGE_KEEP_DAYS"}  # the example package's
    for file in (REPOSITORY / "packages").glob("chordesk-*/*/settings.py"):
        feature = file.parent.parent.name.removeprefix("chordesk-").upper()
        fields = re.findall(r"^    (\w+): .* = of_", file.read_text(encoding="utf-8"), re.M)
        others |= {f"DESK_{feature}_{field.upper()}" for field in fields}
    known = {f"DESK_{field.upper()}" for field in Settings.model_fields} | others | set(ALIASES) | set(SECRET_FILES)
    mentioned = {(name(page), setting) for page, setting in each(_SETTING) if not absent.is_of_one(page)}
    assert {(page, setting) for page, setting in mentioned if setting not in known} == set()


# What only works with an extra, as a page's code has it.
_NEEDS = {
    "alpaca": r"DESK_BROKER=alpaca|DESK_OPTION_CHAINS=alpaca",
    "events": r"DESK_VENUES=",
    "filings": r"DESK_SEC_IDENTITY=",
    "langchain": r"from chordesk\.langchain|agents\.tradingagents|desk (?:graph|tradingagents)\b",
    "litellm": r"\blitellm:",
    "mcp": r"desk mcp\b",
    "notify": r"DESK_NOTIFY_CHANNELS=",
    "parquet": r"\.parquet\b",
    "postgres": r"postgres(?:ql)?(?:\+psycopg)?://",
    "yahoo": r"DESK_MARKET=yahoo",
}
_EXTRAS = re.compile(r"chordesk\[([\w,]+)\]|extra `(\w+)`|EXTRAS=\"([\w ]+)\"")


def test_a_page_names_the_extra_that_its_code_needs() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(_NEEDS) <= set(project["optional-dependencies"])
    pages = [REPOSITORY / "README.md", *DOCS.glob("*.md")]  # nobody follows tables of reference, or decisions
    missing, used = [], set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        code = "\n".join(_CODE.findall(text))
        needed = {extra for extra, use in _NEEDS.items() if re.search(use, code)}
        named = {word for found in _EXTRAS.findall(text) for word in re.findall(r"\w+", " ".join(found))}
        used |= needed
        missing += [(name(page), extra) for extra in sorted(needed - named)]
    assert missing == []
    assert used == set(_NEEDS), "a use that no page has finds nothing"


def test_the_examples_of_contributing_import_what_there_is() -> None:
    text = (DOCS / "contributing.md").read_text(encoding="utf-8")
    found = re.findall(r"^ *```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    blocks = [textwrap.dedent(block) for block in found]
    modules = [block for block in blocks if block.startswith('"""')]
    assert len(modules) >= 4
    for node in (node for block in modules for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert not [each.name for each in node.names if not hasattr(module, each.name)], node.module


def test_readme_begins_with_commands_that_work_in_a_checkout() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    first = text.partition("## First run")[2].split("```")[1].split("\n")[1:-1]
    targets = set(re.findall(r"^([a-z-]+):.*## ", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert first[0].startswith("make demo")
    assert {line.split()[1] for line in first if line.startswith("make ")} <= targets
    assert [line for line in first if not line.startswith("make ")] == [], "the desk is on no package index"
    assert [each for each in re.findall(r"make ([a-z-]+)", text) if each not in targets] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = (REPOSITORY / "zensical.toml").read_text(encoding="utf-8")
    tomllib.loads(nav)
    listed = set(re.findall(r'"([\w/-]+\.md)"', nav))
    assert listed == {page.relative_to(DOCS).as_posix() for page in PAGES}


def test_every_class_of_the_glossary_exists() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    files = [file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py")]
    defined = {name for file in files for name in _CLASS.findall(file.read_text(encoding="utf-8"))}
    assert set(re.findall(r"`([A-Z]\w+)`", text)) <= defined
