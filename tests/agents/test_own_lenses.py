"""Lenses of files as roles: prompts, tools, versions, and a folder that changes or is faulty."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from chordesk.agents.desk_roles import (
    check_roles,
    kept_lenses,
    known_lenses,
    lens_names,
    lens_of,
    own_lenses,
    role_of,
    roles_in,
)
from chordesk.agents.prompting import instructions
from chordesk.agents.role_models import role_models
from chordesk.agents.roles import LENS_TOOLS, ROLES
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import LENSES, UNIFIED, Settings
from chordesk.models.settings.running_desk import in_run, snapshot
from chordesk.tools.lenses.files import read_lens

CALM = (
    '+++\npurpose = "calm payers"\ntools = ["signals_get"]\nhits = 3\nwhere = "volatility20 < 0.3"\n+++\nNames {{ x }}.'
)


def settings_of(home: Path, **files: str) -> Settings:
    folder = home / "lenses"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.md").write_text(text)
    return Settings(home=home)


def test_a_file_in_the_home_is_a_role_with_its_words_as_data(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, calm_payers=CALM)
    role = role_of("screener_calm-payers", settings)
    text = instructions(role, settings)
    assert text.startswith("Role: screener_calm-payers\n")
    assert "through one lens: calm payers." in text
    assert "Names {{ x }}." in text  # no template
    assert "at most 3 symbols" in text
    assert [tool.name for tool in role.tools] == ["signals_get"]
    assert lens_names(settings)[-1] == "calm-payers"
    assert "screener_calm-payers" in role_models(settings)


def test_a_run_keeps_the_text_of_its_own_lenses_alone(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, calm=CALM, other="Words.")
    opened = settings.model_copy(update={"own_lenses": kept_lenses(["technical", "calm"], settings)})
    (tmp_path / "lenses" / "calm.md").write_text("Changed.")
    used = in_run(settings, json.loads(json.dumps(snapshot(opened))))
    lens = lens_of("calm", used)
    assert lens is not None
    assert lens.version == read_lens("calm", CALM).version
    assert "screener_other" not in roles_in(used)
    assert kept_lenses(["technical"], settings) == ""


def test_a_changed_file_is_another_version_at_once(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, calm=CALM)
    before = lens_of("calm", settings)
    file = tmp_path / "lenses" / "calm.md"
    file.write_text(CALM + " More.")
    os.utime(file, ns=(1, 1))
    after = lens_of("calm", settings)
    assert before is not None
    assert after is not None
    assert before.version != after.version


def test_a_faulty_file_hinders_nothing_but_its_own_lens(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, calm=CALM, broken="+++\nwhere = 'pe < 1'\n+++\nx", technical="Mine.")
    assert known_lenses(["technical", "calm"], settings) == ["technical", "calm"]
    assert isinstance(own_lenses(settings)["technical"], UsageError)
    found = lens_of("technical", settings)
    assert found is not None
    assert "Mine." not in found.words
    for ask in (lambda: known_lenses(["broken"], settings), lambda: lens_of("broken", settings)):
        with pytest.raises(UsageError, match="the lens broken: where has 'pe'"):
            ask()


def test_what_has_a_lens_name_and_is_no_file_is_named(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, calm=CALM)
    folder = settings.home / "lenses"
    (folder / "away.md").symlink_to(tmp_path / "none")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    (folder / "made.md").mkdir()
    found = {name: str(one) for name, one in own_lenses(settings).items() if isinstance(one, UsageError)}
    assert found.keys() == {"away", "loop", "made"}
    assert "the lens away cannot be read: no such file or directory" in found["away"]
    assert "the lens made cannot be read: it is no file" in found["made"]
    with pytest.raises(UsageError, match="the lens loop cannot be read: too many"):
        known_lenses(["loop"], settings)


def test_the_setting_takes_a_folder_files_or_texts(tmp_path: Path) -> None:
    folder = settings_of(tmp_path, calm=CALM).home / "lenses"
    by_folder, by_file = Settings(own_lenses=str(folder)), Settings(own_lenses=f"calm={folder / 'calm.md'}")
    assert by_folder.own_lenses == by_file.own_lenses == Settings(own_lenses=by_file.own_lenses).own_lenses
    assert Settings(own_lenses=str(folder), lenses="calm,technical").lenses == ("calm", "technical")
    for wrong in (f"calm={folder / 'none.md'}", str(tmp_path / "none"), '{"calm": 1}', "[1]"):
        with pytest.raises(ValidationError):
            Settings(own_lenses=wrong)


def test_a_lens_that_a_setting_names_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="choose among technical"):
        Settings(home=tmp_path, lenses="calm")
    with pytest.raises(SettingError, match=r"DESK_LENSES.*the lens broken: it has no words"):
        check_roles(settings_of(tmp_path, broken="").model_copy(update={"lenses": ("broken",)}))
    with pytest.raises(SettingError, match=r"DESK_OWN_LENSES.*the lens broken: it has no words"):
        check_roles(Settings(own_lenses='{"broken": ""}'))


@pytest.mark.parametrize("name", [*LENSES, UNIFIED])
def test_the_desks_own_files_have_no_fault_and_the_tools_of_their_roles(name: str) -> None:
    role = ROLES[f"screener_{name}"]
    assert role.file is not None
    lens = read_lens(name, role.file.read_text(), frozenset(LENS_TOOLS))
    assert lens.tools == tuple(tool.name for tool in role.tools)
