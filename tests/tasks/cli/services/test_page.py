"""`desk page`: the link, and where a browser is opened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings, running_desk
from chordesk.tasks.cli.page import _is_served, _person, link, opens_here
from chordesk.tasks.services.plan import only_one, prepare_folders
from tests.patience import PATIENCE


def test_no_browser_is_opened_where_a_person_would_not_see_it() -> None:
    assert not opens_here({"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22", "DISPLAY": ":0"}, "linux")
    assert not opens_here({"SSH_TTY": "/dev/pts/1"}, "darwin")
    assert not opens_here({}, "linux")
    assert opens_here({"DISPLAY": ":0"}, "linux")
    assert opens_here({"WAYLAND_DISPLAY": "wayland-0"}, "linux")
    assert opens_here({}, "darwin")


def test_a_link_has_the_code_and_the_view_in_its_fragment() -> None:
    assert link("http://127.0.0.1:80", "CODE", "/") == "http://127.0.0.1:80/#CODE"
    assert link("http://127.0.0.1:80/", "CODE", "/runs/x") == "http://127.0.0.1:80/#CODE/runs/x"
    assert link("http://0.0.0.0:80", "CODE", "/") == "http://127.0.0.1:80/#CODE"
    assert link("http://[::]:80", "CODE", "/") == "http://[::1]:80/#CODE"
    assert link("https://desk.example", "CODE", "/") == "https://desk.example/#CODE"


def test_a_name_for_the_record_is_one_that_the_service_takes() -> None:
    assert _person("Ann O'Neill") == "Ann O'Neill"
    for wrong in ("", " ", "a\nb", "<b>", "x" * 81):
        with pytest.raises(UsageError, match="is no name"):
            _person(wrong)


def test_the_last_port_is_known_and_a_dead_service_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert (running_desk.read_api(tmp_path), running_desk.last_api_port(tmp_path)) == (None, 0)
    running_desk.write_api(tmp_path, "http://127.0.0.1:4711")
    assert running_desk.read_api(tmp_path) == ("http://127.0.0.1:4711", True)
    assert running_desk.last_api_port(tmp_path) == 4711
    path = running_desk.api_path(tmp_path)
    path.write_text('{"url": "http://[::1]:4712", "pid": 999999999}', encoding="utf-8")
    assert (running_desk.read_api(tmp_path), running_desk.last_api_port(tmp_path)) == (
        ("http://[::1]:4712", False),
        4712,
    )
    for broken in ("", "[]", "{}", '{"url": "x", "pid": "y"}'):
        path.write_text(broken, encoding="utf-8")
        assert (running_desk.read_api(tmp_path), running_desk.last_api_port(tmp_path)) == (None, 0)


@pytest.mark.parametrize("serves", [True, False])
def test_the_port_of_a_desk_that_is_starting_is_left_to_it(tmp_path: Path, serves: bool) -> None:
    settings, folders = Settings(home=tmp_path), prepare_folders(tmp_path)
    assert not _is_served(settings), "no desk runs"
    with only_one(folders), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_is_served, settings)
        running_desk.write(tmp_path, {running_desk.SERVES: serves})
        assert waiting.result(PATIENCE) is serves
