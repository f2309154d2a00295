"""The settings of a package: read from the same sources as the desk's own, shown with their owner, kept with each run;
and packages whose settings do not fit, which are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.features.test_package import PACKAGE
from tests.features.test_switched_off import desk, python
from tests.features.test_tables import site
from tests.stack import Processes, processes


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(site(tmp_path_factory.mktemp("site"), "toy", source=PACKAGE / "chordesk_toy"))


def shown(found: Processes, **environ: str) -> dict[str, Any]:
    done = desk(found, "config", "--json", **environ)
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)}


KEPT = """
from chordesk.models.settings.running_desk import in_run, snapshot
from chordesk.models.settings.sources import load_settings
from chordesk.plugins import own_settings
from chordesk_toy.settings import ToySettings
here = load_settings()
print(own_settings(here, ToySettings).largest, own_settings(in_run(here, {"toy_largest": 5}), ToySettings).largest,
      snapshot(here)["toy_largest"])
"""


def test_a_packages_setting_is_one_of_the_desks(toy: str) -> None:
    with processes(forked=False) as found:
        with_toy, own = {"PYTHONPATH": toy}, found.home / "desk.toml"
        assert shown(found, **with_toy)["toy_largest"] | {"help": ""} == {
            "name": "toy_largest", "group": "The feature toy", "variable": "DESK_TOY_LARGEST", "value": 9,
            "belongs_to": "run", "source": "default", "help": "",
        }  # fmt: skip
        own.write_text("toy_largest = 7\n", encoding="utf-8")
        row = shown(found, **with_toy)["toy_largest"]
        assert (row["value"], row["source"]) == (7, f"toy_largest ({own})")
        kept = python(found, "-c", KEPT, **with_toy, DESK_TOY_LARGEST="12")
        assert kept.stdout.split() == ["12", "5", "12"], kept.stderr
        own.unlink()
        for environ, line in (
            (with_toy | {"DESK_TOY_LARGEST": "0"}, "DESK_TOY_LARGEST='0' (from environment): Input should be greater"),
            (with_toy | {"DESK_TOY_LARGST": "3"}, "write DESK_TOY_LARGEST, or leave it out"),
            (with_toy | {"DESK_TOY_LARGEST": "3", "DESK_FEATURES_OFF": "toy"}, "take toy out of DESK_FEATURES_OFF"),
            ({"DESK_TOY_LARGEST": "3"}, "or install the package that has it"),
        ):
            refused = desk(found, "config", **environ)
            assert (refused.returncode, line in " ".join(refused.stderr.split())) == (2, True), refused.stderr
            assert "Traceback" not in refused.stderr


FIELD = "from pydantic import BaseModel\nfrom chordesk.plugins import of_run\nclass Own(BaseModel):\n    {}\n"
WRONG = {
    "api": ("port: int = of_run(1, 'a', '2')", "among the settings there is api_port already"),
    "bare": ("port: int = 1", "its setting bare_port has no owner: write it with of_run"),
    "one": ("two_port: int = of_run(1, 'a', '2')", ""),
    "one-two": ("port: int = of_run(1, 'a', '2')", "among the settings there is one_two_port already"),
    "mute": ("port: int = of_run(1, ' ', '2')", "its setting mute_port does not say what it is for"),
    "shown": ("port: int = of_run(1, 'a', 'two')", "its setting shown_port has an example that does not fit: Input"),
    "strict": ("port: int = of_run('x', 'a', '2')", "Input should be a valid integer"),
}


def test_packages_whose_settings_do_not_fit_are_left_out(tmp_path: Path) -> None:
    for name, (field, _) in WRONG.items():
        site(tmp_path, name)
        module = name.replace("-", "_")
        feature = (
            f"from chordesk.plugins import Feature\nFEATURE = Feature('{name}', settings_schema='own_{module}:Own')\n"
        )
        (tmp_path / f"wrong_{module}.py").write_text(feature, encoding="utf-8")
        (tmp_path / f"own_{module}.py").write_text(FIELD.format(field), encoding="utf-8")
    look = "from chordesk.models.settings import Settings; from chordesk.models import features; import json\n"
    look += "print(json.dumps([[*Settings.model_fields], [[one.name, str(one)] for one in features.skipped()]]))"
    with processes(forked=False) as found:
        looked = python(found, "-c", look, PYTHONPATH=str(tmp_path))
        assert looked.returncode == 0, looked.stderr
        fields, skipped = json.loads(looked.stdout)
        assert fields[-1] == "one_two_port"
        assert {name for name, _ in skipped} == WRONG.keys() - {"one"}
        for name, line in skipped:
            assert WRONG[name][1] in line
