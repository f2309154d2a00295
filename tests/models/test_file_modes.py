"""What other users of the machine could read of the desk."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from chordesk.models import file_modes
from chordesk.models.settings import Settings


def test_what_others_may_read_is_found_and_closed(tmp_path: Path) -> None:
    home, reports, foreign = tmp_path / "home", tmp_path / "reports", tmp_path / "login.json"
    for folder in (home / "logs", reports / "day"):
        folder.mkdir(parents=True)
    files = [tmp_path / "desk.db", home / "logs" / "api.log", reports / "day" / "report.html", home / "run"]
    for file in (*files, foreign):
        file.write_text("x")
    (home / "auth.json").symlink_to(foreign)
    for path in (home, home / "logs", reports, reports / "day"):
        path.chmod(0o755)
    for file in (*files, foreign):
        file.chmod(0o644)
    settings = Settings(home=home, database_url=f"sqlite:///{tmp_path / 'desk.db'}", report_url=str(reports))
    opened = {home, home / "logs", reports, reports / "day", *files}
    assert set(file_modes.open_to_others(settings)) == opened
    assert file_modes.close(settings) == []
    assert {stat.S_IMODE(path.stat().st_mode) for path in opened} == {0o700, 0o600}
    assert stat.S_IMODE(foreign.stat().st_mode) == 0o644
    (home / "logs" / "api.log").chmod(0o644)
    assert file_modes.open_to_others(settings) == []


def test_what_a_command_makes_is_its_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    command = [str(Path(sys.executable).parent / "desk"), "db", "upgrade"]
    environ = {**os.environ, "DESK_HOME": str(home)}
    subprocess.run(command, env=environ, umask=0o022, check=True, capture_output=True)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "desk.db")] == [0o700, 0o600]
