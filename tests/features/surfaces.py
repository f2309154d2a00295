"""What a desk shows of its features, seen by processes of their own: `.venv/bin/python -m tests.features.surfaces
[NAMES OFF]...` prints one JSON row for each list of names, in which the features named are off.

The libraries are loaded once, and each process that looks is a fork of that one.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Container, Iterator
from importlib import import_module
from typing import Any, TextIO

from chordesk.models.features import OFF, OWN, Feature

LIBRARIES = (
    "celery",
    "fastapi",
    "numpy",
    "orjson",
    "redis",
    "sqlalchemy.orm",
    "sqlmodel",
    "structlog",
    "typer.testing",
)
AT_ONCE = 2
# The setting that takes a name of each kind, with the name in it.
TAKES = {
    "graph_roles": ("DESK_RESEARCH_ROLES", "quick,{}"),
    "runtimes": ("DESK_ROLE_MODELS", "trader={}:openai/gpt-5.5"),
    "markets": ("DESK_MARKET", "{}"),
    "brokers": ("DESK_BROKER", "{}"),
    "lenses": ("DESK_LENSES", "{}"),
}
# Kinds of runs whose names are ordinary verbs: texts use them without speaking of such a run.
VERBS = ("ask",)


def described() -> dict[str, Feature]:
    found = (import_module(place).FEATURE for place in OWN)
    return {one.name: one for one in found}


def look(off: str) -> dict[str, Any]:
    os.environ[OFF] = off
    from typer.main import get_command
    from typer.testing import CliRunner

    from chordesk.agents.role_models import RUNTIMES
    from chordesk.agents.roles import GRAPH_ROLES, ROLES, TOOLS
    from chordesk.models import features
    from chordesk.models.database import store
    from chordesk.models.events import EventType
    from chordesk.models.notice_channels import NoticeKind
    from chordesk.models.settings import BROKERS, KNOWN_LENSES, MARKETS
    from chordesk.models.settings.schema import HOLDINGS_SOURCES, MESSENGERS
    from chordesk.models.settings.sources import load
    from chordesk.tasks.cli.root import build, outline
    from chordesk.tasks.doctor import checklist
    from chordesk.tasks.engine import kinds
    from chordesk.tasks.reading import run_parts
    from chordesk.tasks.reading.setting_values import describe
    from chordesk.tasks.web.app import ROUTERS
    from chordesk.tasks.web.page import assets
    from chordesk.tasks.worker import log_format
    from chordesk.tools.risk.codes import meanings

    log_format.quiet()
    settings = describe(loaded := load())
    texts = dict(_texts(get_command(build()), "desk"))
    shown = {
        "commands": [command for command, _ in texts if command.count(" ") == 1],
        "subcommands": [command for command, _ in texts if command.count(" ") > 1],
        "options": [f"{command} {option}" for command, option in texts if option],
        "help": _listed(CliRunner().invoke(outline(), ["--help"]).stdout),
        "settings": [row["name"] for row in settings],
        "roles": [*ROLES], "graph_roles": [*GRAPH_ROLES], "tools": [*TOOLS], "lenses": [*KNOWN_LENSES],
        "runs": [*kinds.run_kinds()], "kinds": [*kinds.run_kinds(), *(spec.kind for spec in kinds.steps())],
        "scheduled": [*kinds.scheduled()],
        "shown": [part.name for part in run_parts.parts("run", "detail", "report", "status")],
        "event_kinds": EventType.known(), "notice_kinds": NoticeKind.known(), "denials": [*meanings()],
        "checks": [one.name for one in checklist.ALL],
        "routes": [f"{verb} {one.path}" for router in ROUTERS for one in router.routes for verb in one.methods],
        "views": [view.path for _, view in features.views()],
        "pages": [name for name in assets._FILES if name.startswith("of/")],
        "passes": [*features.passes()], "proposals": [*features.added({}, "proposals")],
        "markets": [*MARKETS], "brokers": [*BROKERS], "holdings": [*HOLDINGS_SOURCES], "runtimes": [*RUNTIMES],
        "benchmarks": [*features.added({}, "benchmarks")], "messengers": [*MESSENGERS],
        "tables": [*store.every_table()], "keeps": [*store.rules()],
    }  # fmt: skip
    for what in ("brief", "lineage", "bounds", "researched", "wraps", "preflight", "answers", "asks", "confirms"):
        shown[what] = [f"{one.name}: {part.__name__}" for one, parts in features.parts(what) for part in parts]
    return {
        "shown": shown,
        "texts": [*texts.values(), *(row["help"] for row in settings)],
        "database": CliRunner().invoke(build("db"), ["db", "current"]).exit_code,
        "refused": dict(_refused(off)),
        "schedule": dict(_scheduled(loaded.settings, off)),
    }


def _texts(command: Any, path: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the help of a command, and of each option of it, by both names."""
    yield (path, ""), f"{path}: {command.help or ''}"
    for one in command.params:
        yield (path, one.opts[0]), f"{path} {' '.join(one.opts)}: {getattr(one, 'help', '') or ''}"
    for name, each in getattr(command, "commands", {}).items():
        yield from _texts(each, f"{path} {name}")


def _listed(help: str) -> list[str]:
    return [line.split()[1] for line in help.splitlines() if line.startswith("│ ") and line[2].isalpha()]


def _refused(off: str) -> Iterator[tuple[str, str]]:
    """Yield what the desk says to each setting, and to each name in one, that is of a feature which is off."""
    from chordesk.models import features
    from chordesk.models.errors import DeskError
    from chordesk.models.settings import Settings
    from chordesk.tasks.cli.shell import checked

    for feature in (one for name, one in described().items() if name in off.split(",")):
        fields = {name: Settings.model_fields[name] for name in feature.settings if name in Settings.model_fields}
        if feature.settings_schema:
            part = features.load(feature.settings_schema)
            fields |= {feature.prefix + name: field for name, field in part.model_fields.items()}
        given = [(f"DESK_{name.upper()}", str((field.examples or [""])[0])) for name, field in fields.items()]
        given += [(key, text.format(name)) for what, (key, text) in TAKES.items() for name in getattr(feature, what)]
        for variable, value in given:
            os.environ[variable] = value
            try:
                checked()
                yield f"{variable}={value}", "it is taken"
            except DeskError as error:
                yield f"{variable}={value}", str(error)
            del os.environ[variable]


def _scheduled(settings: Any, off: str) -> Iterator[tuple[str, str | None]]:
    """Yield why an entry of the schedule starts nothing, of each kind of the features that are off. Beat leaves it
    out, and a person may still switch it off."""
    from chordesk.models.database.store import Store
    from chordesk.models.tables.columns import utcnow
    from chordesk.models.tables.runtime import ScheduleEntry
    from chordesk.tasks import schedules

    store = Store(settings.database)
    for kind in (kind for name, one in described().items() if name in off.split(",") for kind in one.kinds):
        with store.session() as session:
            session.add(ScheduleEntry(name="old", kind=kind, at="09:45", enabled=True, by="Ann"))
            session.flush()
            entries = schedules.entries(session, settings)
            sent = schedules.beat_schedule_now(session, settings, utcnow())
            yield kind, "beat sends it" if "old" in sent else next(one.lack for one in entries if one.name == "old")
            schedules.change(session, settings, "old", "Ann", schedules.Change(enabled=False))
            schedules.remove(session, settings, "old", "Ann")
    store.close()


def mentions(text: str, feature: Feature, kinds: Container[str]) -> bool:
    """Whether a text speaks of what is a feature's: a command, a setting or a kind of run. kinds: of runs."""
    names = [f"desk {name}" for name in feature.commands] + [f"DESK_{name.upper()}" for name in feature.settings]
    of_runs = [kind for kind in feature.kinds if kind in kinds]
    names += [f"kind {kind}|{kind} runs?" if kind in VERBS else f"{kind}s?" for kind in of_runs]
    return any(re.search(rf"\b{name}\b", text) for name in names)


def forked(off: str) -> tuple[int, TextIO]:
    """Return the process that looks, and what it prints. No thread runs beside it that could hold a lock."""
    read, write = os.pipe()
    if child := os.fork():
        os.close(write)
        return child, os.fdopen(read)
    os.close(read)
    with os.fdopen(write, "w") as out:
        try:
            out.write(json.dumps(look(off)))
        except BaseException:
            traceback.print_exc()
    os._exit(0)


def main(lists: list[str]) -> int:
    for library in LIBRARIES:
        import_module(library)
    found = []
    for first in range(0, len(lists), AT_ONCE):
        children = [forked(off) for off in lists[first : first + AT_ONCE]]
        for child, out in children:
            found.append(out.read())
            os.waitpid(child, 0)
    print(*found, sep="\n")
    return 0 if all(found) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
