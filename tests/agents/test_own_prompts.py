"""Prompts of a user in place of the desk's own: from files, kept as texts, and refused by role."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from chordesk.agents.prompting import instructions, require_prompts
from chordesk.agents.roles import PROMPTS, ROLES
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run, snapshot

OWN = '{% extends "_validator.md" %}{% block method %}Count the moons.{% endblock %}'


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_prompt_of_a_file_or_a_folder_stands_in_place_of_the_roles_own(tmp_path: Path) -> None:
    file = written(tmp_path / "risk.md", OWN)
    by_file, by_folder = Settings(prompts=f"risk={file}"), Settings(prompts=str(tmp_path))
    assert by_file.prompts == by_folder.prompts
    risk = instructions(ROLES["risk"], by_file)
    assert "Count the moons." in risk
    assert risk.startswith("Role: risk\n")
    assert "Rules of the desk" in risk
    assert instructions(ROLES["quick"], by_file) == instructions(ROLES["quick"], Settings())


def test_a_run_keeps_the_text_and_its_workers_need_no_file(tmp_path: Path) -> None:
    file = written(tmp_path / "risk.md", OWN)
    kept = snapshot(Settings(prompts=f"risk={file}"))
    file.unlink()
    assert "Count the moons." in instructions(ROLES["risk"], in_run(Settings(), kept))


def test_what_is_wrong_with_a_prompt_is_said_with_its_role(tmp_path: Path) -> None:
    for text, said in (
        ("Judge it.", "prompt of risk .* does not begin with its role"),
        ("Role: risk\n{{ nothing }}", "prompt of risk .* UndefinedError"),
        ("Role: risk\n{% if %}", "prompt of risk .* TemplateSyntaxError"),
        ("Role: risk\n{{ role.__class__.__mro__ }}", "prompt of risk .* SecurityError"),
    ):
        with pytest.raises(SettingError, match=said):
            require_prompts(Settings(prompts=f"risk={written(tmp_path / 'own.md', text)}"))
    with pytest.raises(SettingError, match=r"prompts .* has 'weather'"):
        require_prompts(Settings(prompts=f"weather={written(tmp_path / 'own.md', OWN)}"))
    with pytest.raises(ValidationError, match="cannot be read"):
        Settings(prompts="risk=/nowhere.md")
    require_prompts(Settings(prompts=f"risk={PROMPTS / 'risk.md'}"))
