"""Packages that do not fit: each is left out with one line that names it, the place and the remedy; the rest works."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

from chordesk.models import features
from chordesk.tasks.web.page.assets import STATIC
from tests.features.test_switched_off import desk, python
from tests.features.test_tables import site
from tests.stack import processes

HEAD = "from chordesk.models.features import Broker, Command, Feature, Keep, Market, Program, Shown, View\n"
LATE = "ZeroDivisionError: division by zero (late_part.py, line 1)"
LONG = "x" * 2000
OWN = [import_module(place).FEATURE for place in features.OWN]
# By name of the feature: what its description has, or what its module has in place of one, and what the line about it
# says.
WRONG = {
    # that does not load
    "raising": ("1 / 0\n", "ZeroDivisionError: division by zero (wrong_raising.py, line 2)"),
    "exits": ("raise SystemExit(3)\n", "SystemExit: 3 (wrong_exits.py, line 2)"),
    "garbled": ("def\n", "SyntaxError: invalid syntax (wrong_garbled.py, line 2)"),
    "lacking": ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
    "endless": ("def again(): again()\nagain()\n", "RecursionError: maximum recursion depth exceeded (wrong"),
    "lengthy": (f"raise ValueError('''{LONG}\nand more''')\n", "ValueError: xxx"),
    "mute": ("class Mute(Exception):\n    def __str__(self): 1 / 0\nraise Mute\n", "Mute: it says nothing, for Zero"),
    "base": ("class Base(BaseException): pass\nraise Base('gone')\n", "Base: gone (wrong_base.py, line 3)"),
    "entwined": ("from chordesk.models.settings import Settings\n", "wrong_entwined:FEATURE loads the desk while it"),
    # whose description is none, or of another version
    "stranger": ("FEATURE = 1\n", "its entry point is no Feature of the name stranger"),
    "nameless": ("", "AttributeError: module 'wrong_nameless' has no attribute 'FEATURE'"),
    "renamed": ("FEATURE = Feature('other')\n", "its entry point is no Feature of the name renamed"),
    "newer": ("needs='>=99'", "it needs chordesk >=99, and this is"),
    "ranged": ("needs='99'", "its needs are '99', and a range such as '>=0.3,<0.4' is due"),
    "future": ("dreams=('a:B',)", "knows no Feature(dreams=...)"),
    # with members of another type
    "letters": ("roles='abc:ROLES'", "its roles is the text 'abc:ROLES'; of one entry the tuple"),
    "numbered": ("routes=(1,)", "its routes has 1, which is 1, and a text is due"),
    "listed": ("commands=('a', 'b')", "its commands is ('a', 'b'), and a dict is due"),
    "plain": ("commands={'a': 'b'}", "its commands has 'a', which is 'b', and a Command is due"),
    "inner": ("views=(View('/inner', 'A', 1),)", "has a module that is 1, and a text is due"),
    "spaced": ("commands={'a b': Command('a', 'Run', 'b')}", "its commands have 'a b', and a name"),
    # with names that are there already
    "alembic": ("needs=''", "tables that begin with alembic_ count the revisions"),
    "nicks": ("aliases=('good',)", "its alias good is a name of the feature good"),
    "screens": ("commands={'screen': Command('a', 'Run', 'b')}", "there is screen already"),
    "goods": (
        "commands={'good': Command('good_part', 'Run', 'b')}",
        "among the commands there is good already, of the feature good",
    ),
    "markets": ("markets={'yahoo': Market('a')}", "among the markets there is yahoo already"),
    "again": ("roles=('again_roles:ROLES',)", "among the roles there is risk already"),
    "tooled": (
        "tools={'chordesk.tools.model_tools.signals:SIGNALS_GET': ('risk',)}",
        "among the tools there is signals_get already",
    ),
    "running": ("workflows=('again_roles:WORKFLOWS',)", "the kind of run 'screen' is declared twice"),
    "spoken": ("options={'stop': ('spoken_part:add',)}", "the command stop has --all already"),
    "leaky": ("subcommands={'runs': ('spoken_part',)}", "the command runs show is there already"),
    "routed": ("routes=('routed_part:router',)", "among the routes there is GET /runs/{} already"),
    "formed": ("routes=('routed_part:PLAIN',)", "its route /formed is no JsonRoute: give its APIRouter"),
    "untyped": ("shown={'bare': Shown('routed_part:run')}", "part bare of a run has no type that it returns: KeyError"),
    "viewer": ("views=(View('/orders', 'A', 'of/viewer/a'),)", "views there is /orders already"),
    "runner": ("views=(View('/runs/:id', 'A', 'of/runner/a'),)", "there is /runs/:id already"),
    "keyed": ("views=(View('/keyed', 'A', 'of/keyed/a', key='d'),)", "has the key d, which goes to /; free are"),
    "lettered": ("views=(View('/lettered', 'A', 'of/lettered/a', key='zz'),)", "the key 'zz', and one small letter"),
    "unnamed": ("views=(View('/unnamed', ' ', 'of/unnamed/a'),)", "its views have a View without name"),
    "wordless": ("commands={'wordless': Command('a', 'Run', '')}", "its commands have a Command without purpose"),
    "keeper": ("keeps={'keeper_row': Keep(run='results')}", "have a rule for keeper_row, and it has no tables"),
    "tabled": ("roles=('tabled_part:ROLES',)", "among the tables there is run already"),
    "checked": ("checks=('routed_part:CHECK',)", "of desk doctor there is redis already"),
    "started": ("programs=(Program('beat', ('a',), 'b'),)", "among the programs there is beat already"),
    # with parts that are not there, or of another kind
    "lost": ("roles=('no_such_module:ROLES',)", "No module named 'no_such_module'"),
    "halfway": ("roles=('again_roles',)", "again_roles is a module, and a tuple of Role is due"),
    "mixed": ("roles=('routed_part:MIXED',)", "routed_part:MIXED has a number, and a Role is due"),
    "routeless": ("routes=('routed_part:MIXED',)", "is a tuple, and an APIRouter is due"),
    "nested": ("tools={'tool_parts:NESTED': ('risk',)}", "tool arguments are plain values, no nested models or enums"),
    "classless": ("tools={'tool_parts:CLASSLESS': ('risk',)}", "is the class dict, and a BaseModel is due"),
    "unbound": ("tools={'tool_parts:UNBOUND': ('risk',)}", "tool free_get has no schema: PydanticUndefinedAnnotation"),
    "spelled": ("tools={'tool_parts:SPELLED': ('risk',)}", "its tool's name is 'free get!', and a name is"),
    "objects": ("tools={'tool_parts:OBJECTS': ('risk',)}", "is not JSON serializable"),
    "untold": ("tools={'tool_parts:UNTOLD': ('risk',)}", "its tool free_get has no description"),
    "idle": ("tools={'tool_parts:IDLE': ('risk',)}", "the function of free_get is None, and a function is due"),
    "half": ("roles=('tool_parts:HALF',), tools={'tool_parts:NESTED': ('half',)}", "tool arguments are plain values"),
    "holding": ("roles=('tool_parts:HOLDING',)", "its tool's name is 'free get!'"),
    "typed": ("roles=('tool_parts:TYPED',)", "the rejects of quiet is 1, and a bool is due"),
    "astray": ("roles=('tool_parts:ASTRAY',)", "its role quiet follows or reads nobody, and there is no such role"),
    "queued": ("workflows=('tool_parts:QUEUED',)", "has a StepSpec, which has a queue that is 'nowhere', and one of"),
    "lensed": ("lenses={'calm': 'calm names'}", "its lens calm has no role screener_calm"),
    "filed": ("lenses={'quiet': 'spoken_part:quiet.md'}", "its lens quiet cannot be read: ValueError: spoken_part"),
    "silent": ("roles=('again_roles:SILENT',)", "it has no prompt silent.md"),
    "folderless": ("prompts=('again_roles',)", "is no package with a folder prompts"),
    "halter": ("options={'halt': ('spoken_part:due',)}", "it adds options to `desk halt`"),
    "demanding": ("options={'stop': ('spoken_part:due',)}", "its option due of the command stop"),
    "unread": ("options={'stop': ('spoken_part:unread',)}", "NameError: name 'Nowhere' is not"),
    # of which a part is wrong that is loaded only where it is used, and by the checks
    "late": ("commands={'late': Command('late_part', 'Run', 'b')}, markets={'late': Market('late_part')}", ""),
    "empty": ("commands={'empty': Command('empty_part', 'Run', 'b')}", ""),
    "marketless": ("markets={'marketless': Market('empty_part')}", ""),
    "good": (
        "commands={'good': Command('spoken_part', 'Run', 'b')}, settings=('nowhere',),"
        "views=(View('/good', 'Good', 'of/good/good'),)",
        "",
    ),
}  # fmt: skip
# Names that a feature of the desk has, where the tree has one with another name.
for own in [each for each in OWN if each.aliases][:1]:
    other = own.aliases[0]
    WRONG[own.name] = ("needs=''", "the desk itself has this name")
    WRONG[other] = ("needs=''", f"{other} is another name of the desk's feature {own.name}")
    WRONG["nicked"] = (f"aliases=({own.name!r},)", f"its alias {own.name} is a name of the feature {own.name}")
PARTS = {
    "tabled_part": (
        "from chordesk.plugins import Identified, Run\n"
        "class Again(Identified, table=True):\n    __tablename__ = 'run'\nROLES = ()\n"
    ),
    "again_roles": (
        "from chordesk.plugins import validator, Workflow\n"
        "ROLES = (validator('risk'),)\nSILENT = (validator('silent'),)\nWORKFLOWS = (Workflow('screen'),)\n"
    ),
    "spoken_part": (
        "from __future__ import annotations\nimport typer\nfrom typing import Annotated\n"
        "def add(all: Annotated[bool, typer.Option()] = False): pass\n"
        "def due(due: Annotated[str, typer.Option()]): pass\n"
        "def unread(that: Nowhere = ''): pass\n"
        "commands = typer.Typer()\n@commands.command()\ndef show(): pass\n"
        "@commands.command()\ndef good(): print('good')\n"
    ),
    "routed_part": (
        "from fastapi import APIRouter\nfrom chordesk.tasks.doctor.check import CheckEntry, ok\n"
        "router = APIRouter()\n@router.get('/runs/{id}')\ndef run(id: str): pass\n"
        "PLAIN = APIRouter()\n@PLAIN.post('/formed')\ndef formed(): pass\n"
        "CHECK, MIXED = CheckEntry('redis', lambda context: ok(''), 1), (1,)\n"
    ),
    "tool_parts": """
from dataclasses import replace
from chordesk.plugins import Arguments, StepSpec, ToolSpec, Workflow, validator
class Plain(Arguments):
    days: int = 3
class Nested(Arguments):
    inner: Plain = Plain()
class Unbound(Arguments):
    days: 'Nowhere' = 3
class Objects(Arguments):
    days: object = object()
FREE = ToolSpec('free_get', 'Get what is free.', Plain, lambda context, arguments: {})
NESTED, CLASSLESS, UNBOUND, OBJECTS = (replace(FREE, arguments=one) for one in (Nested, dict, Unbound, Objects))
SPELLED, UNTOLD, IDLE = replace(FREE, name='free get!'), replace(FREE, description=' '), replace(FREE, function=None)
QUIET = validator('quiet', SPELLED, question='ask_validator.md')
HOLDING, HALF = (replace(QUIET, prompt='risk.md'),), (replace(QUIET, key='half', prompt='risk.md', tools=()),)
TYPED, ASTRAY = (replace(HOLDING[0], rejects=1),), (replace(HOLDING[0], after='nobody'),)
QUEUED = (Workflow('quiet', steps=(StepSpec('quiet', 'nowhere', print),)),)
""",
    "late_part": "1 / 0\n",
    "empty_part": "import typer\ncommands = typer.Typer()\n",
}
# Entry points: a second one of a name, and those that are none.
ENTRIES = {
    "wrong-twin": "good = wrong_good:FEATURE",
    "wrong-upper": "Upper = wrong_good:FEATURE",
    "wrong-blank": " = wrong_good:FEATURE",
    "wrong-value": "valued = a b",
}
LOOK = """
import json, os
from pathlib import Path
from pydantic import BaseModel
from chordesk.agents.roles import ROLES
from chordesk.models import features
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load
from chordesk.tasks.cli.root import COMMANDS, build
from chordesk.tasks.reading import run_parts
from chordesk.tasks.services import plan
from chordesk.tasks.doctor import checklist
from chordesk.tasks.engine import kinds
from chordesk.tasks.web.app import ROUTERS
from chordesk.tools.market.factory import build_market

def refusal(asked, *given):
    try:
        asked(*given)
    except DeskError as error:
        return str(error)

build("stop"), build("runs"), run_parts.widened(BaseModel, "detail"), kinds.run_kinds()
plan.make(load(), {**os.environ}, Path(), plan.Choice())
left_over = [*features.strange_settings(Settings.model_fields), *features.lost_views()]
left = [(each.name, str(each), each.remedy) for each in features.skipped()]
refused = [("empty", refusal(build, "empty"))]
refused += [(name, refusal(build_market, Settings(market=name))) for name in ("marketless", "late")]
from wrong_good import FEATURE
from chordesk.tools.portfolio.holdings import _bounds_of
(bound,) = _bounds_of(FEATURE, lambda *given: 1 / 0, "IBM", None, None)
exec("def leave(): raise SystemExit(3)", there := {"__name__": "wrong_good"})
assert "wrong-good 1.0 (wrong_good:FEATURE) fails: SystemExit: 3" in refusal(features.built, there["leave"])
assert bound.most == 0.0 and "the feature good fail: the feature good of wrong-good 1.0" in bound.why, bound
refused += [("late", refusal(build, "late")), ("good", refusal(features.call, FEATURE, lambda: 1 / 0))]
print(json.dumps([[*ROLES], [*COMMANDS], left, refused, left_over]))
"""
_MEMBER = re.compile(r"\w+=")


def written(folder: Path) -> None:
    """Write the packages as pip would have installed them."""
    for name, (text, _) in WRONG.items():
        whole = f"FEATURE = Feature({name!r}, {text})\n" if _MEMBER.match(text) else text
        (folder / f"wrong_{name}.py").write_text(HEAD + whole, encoding="utf-8")
    for name, text in PARTS.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    entries = {f"wrong-{name}": f"{name} = wrong_{name}:FEATURE" for name in WRONG} | ENTRIES
    for name, entry in entries.items():
        about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (about / "entry_points.txt").write_text(f"[chordesk.features]\n{entry}\n", encoding="utf-8")


def test_a_package_that_does_not_fit_is_left_out_and_the_rest_works(tmp_path: Path) -> None:
    written(tmp_path)
    with processes(forked=False, PYTHONPATH=str(tmp_path)) as found:
        looked = python(found, "-c", LOOK)
        assert looked.returncode == 0, looked.stderr
        roles_here, commands, skipped, refused, others = json.loads(looked.stdout.splitlines()[-1])
        assert {"risk", "skeptic"} <= set(roles_here)
        assert "half" not in roles_here, "of a package that is left out for its tool no role stays"
        assert {"screen", "good", *(name for each in OWN for name in each.commands)} <= set(commands)
        expected = {name: text for name, (_, text) in WRONG.items() if text}
        lines = {}
        for name, line, remedy in skipped:
            assert line.startswith(f"the feature {name or repr('')} of wrong-"), line
            assert (line.count("\n"), bool(remedy), len(line) < 600) == (0, True, True), line
            lines[name] = line
        assert lines.keys() == expected.keys() | {"", "Upper", "valued", "good", "late"}
        for name, why in expected.items():
            where = f"the feature {name} of wrong-{name} 1.0 (wrong_{name}:FEATURE) is left out: "
            assert lines[name].startswith(where)
            assert why in lines[name]
        assert "its name is 'Upper', and a name is a small letter" in lines["Upper"]
        assert "its name is ''" in lines[""]
        assert "its entry point is 'a b', and MODULE:FEATURE is due" in lines["valued"]
        assert lines["good"].endswith("wrong-good 1.0 (wrong_good:FEATURE) has this name")
        assert lines["goods"].endswith("good already, of the feature good of wrong-good 1.0 (wrong_good:FEATURE)")
        out = "is left out: "
        whys = (f"{out}its module has no command empty, but none", f"{out}empty_part has no build", *(out + LATE,) * 2)
        for (name, line), why in zip(refused, (*whys, "fails: ZeroDivisionError: division by zero"), strict=True):
            assert line.startswith(f"the feature {name} of wrong-{name} 1.0 (wrong_{name}:FEATURE) {why}")
        assert [line for line, remedy in others if remedy] == [
            "the feature good names the setting nowhere, and there is none",
            "the view /good of the feature good has a file, and the feature has no pages",
        ]
        good = desk(found, "good")
        assert (good.returncode, good.stdout) == (0, "good\n")
        for command, environ, why in (("screen", {"DESK_MARKET": "raising"}, WRONG["raising"][1]), ("late", {}, LATE)):
            refusal = desk(found, command, **environ)
            assert (refusal.returncode, "Traceback" in refusal.stderr) == (2, False), refusal.stderr
            assert f"is left out: {why}" in " ".join(refusal.stderr.split())


def test_the_views_that_packages_may_not_have_are_those_of_the_page() -> None:
    text = (STATIC / "app.js").read_text(encoding="utf-8")
    found = re.findall(r"\{ path: '([^']+)', name: '\w+',(?: menu: true,)?(?: key: '(\w)',)? module", text)
    assert dict(found) == features.PAGE


# Packages whose code does more than describe, while it loads: by name the module of the feature, and further modules.
LOUD = {
    "stops": {"loud_stops": "raise KeyboardInterrupt\n"},
    "settles": {
        "loud_settles": f"{HEAD}FEATURE = Feature('settles', settings_schema='late_settings:Own')\n",
        "late_settings": "raise SystemExit\n",
    },
    "prints": {
        "loud_prints": f"{HEAD}print('a greeting')\n"
        "FEATURE = Feature('prints', commands={'prints': Command('loud_prints.more', 'Run', 'Print.')})\n",
        "loud_prints/more": "import typer\ncommands = typer.Typer()\n@commands.command()\ndef prints():\n"
        "    from loud_prints import late\n",
        "loud_prints/late": "import sys\nsys.exit(7)\n",
    },
}


def test_what_a_package_does_while_it_loads_ends_no_command(tmp_path: Path) -> None:
    for name, modules in LOUD.items():
        site(tmp_path, name, module=f"loud_{name}")
        for module, text in modules.items():
            path = tmp_path / f"{module}.py"
            if any(one.startswith(f"{module}/") for one in modules):
                path = tmp_path / module / "__init__.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    with processes(forked=False, PYTHONPATH=str(tmp_path)) as found:
        shown = desk(found, "config", "--json")
        assert (shown.returncode, shown.stderr) == (0, "a greeting\n")
        assert "settles" not in str(json.loads(shown.stdout))
        late = desk(found, "prints")
        assert (late.returncode, "Traceback" in late.stderr) == (2, False), late.stderr
        assert "the feature prints of loud_prints 1.0 (loud_prints:FEATURE) fails: SystemExit: 7 (late.py, line 2)" in (
            " ".join(late.stderr.split())
        )
        # A signal that a person gives ends the command, and what was loading is named.
        site(slow := tmp_path / "slow", "slow", module="loud_slow")
        (slow / "loud_slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8")
        stopped = desk(found, "config", PYTHONPATH=str(slow))
        line = "stopped by Ctrl-C while the feature slow of loud_slow 1.0 (loud_slow:FEATURE) was loaded\n"
        assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", line)
