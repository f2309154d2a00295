"""`desk setup` at a terminal: questions, hidden keys, Ctrl-C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from chordesk.tasks.services.plan import free_ports
from tests.fakes.local_server import LocalServer, Pace, Says
from tests.fakes.responses import FakeResponses, Reply, Silence, Status
from tests.tasks.cli.setup.terminal import Terminal
from tests.tasks.cli.setup.test_setup import SECRET, Screener, screening, written


def test_a_person_chooses_a_server_by_its_number_and_has_it_tried_and_written(tmp_path: Path) -> None:
    with Screener(kind="ollama", models=["phi:latest", "qwen3:8b"]) as server:
        host = server.root.removeprefix("http://")
        with Terminal(tmp_path, "setup", OLLAMA_HOST=host) as terminal:
            terminal.types("Number [3]: ", "3")
            terminal.waits_for(f"  2  Ollama     {server.url}  qwen3:8b\n")
            terminal.types("Number [1]: ", "2")
            terminal.types("Number [1]: ", "")
            terminal.waits_for("local:qwen3:8b answered in ")
            terminal.types("Write it? [Y/n]: ", "")
            assert terminal.ends() == 0, terminal.shown
    assert written(tmp_path) == (
        f"DESK_PROVIDER=local\nDESK_PROVIDER_URL={server.url}\nDESK_MODEL=qwen3:8b\nDESK_MARKET=replay\n"
    )


def test_a_key_that_is_typed_is_shown_nowhere(tmp_path: Path) -> None:
    with FakeResponses(screening) as endpoint, Terminal(tmp_path, "setup", OLLAMA_HOST="") as terminal:
        terminal.types("Number", "2")
        terminal.types("Base URL [https://api.openai.com/v1]: ", endpoint.url)
        terminal.types("Key (it is not shown; Enter for none): ", SECRET)
        terminal.types("Model: ", "m-1")
        terminal.types("Number [1]: ", "1")
        terminal.types("Write it? [Y/n]: ", "y")
        assert terminal.ends() == 0, terminal.shown
    assert SECRET not in terminal.shown + written(tmp_path)
    assert next((tmp_path / "keys").iterdir()).read_text() == f"{SECRET}\n"


def test_ctrl_c_leaves_the_file_at_a_question_and_in_each_part_of_the_try(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DESK_SHARD_SIZE=99\n", encoding="utf-8")
    with Terminal(tmp_path, "setup", "--no-try") as terminal:
        terminal.waits_for("Number")
        stopped(terminal)
    never = Says("x", pace=Pace(first=600.0))
    with LocalServer(lambda _body: never) as server, FakeResponses(silent) as endpoint:
        for far, provider, seen in ((server, "local", server.chats), (endpoint, "endpoint", endpoint.calls)):
            flags = ("--provider", provider, "--url", far.url, "--model", "small", *NO_KEY[provider])
            with Terminal(tmp_path, "setup", *flags) as terminal:
                terminal.waits_for("Ctrl-C ends it")
                while not any(request.body for request in seen()):
                    time.sleep(0.05)
                stopped(terminal)
    assert written(tmp_path) == "DESK_SHARD_SIZE=99\n"


def silent(body: dict[str, Any]) -> Reply:
    """What an endpoint does that never answers a turn."""
    return Silence(600.0) if body else Status(400, {"error": {}})


NO_KEY = {"local": (), "endpoint": ("--no-key",)}


def stopped(terminal: Terminal) -> None:
    terminal.interrupts()
    assert terminal.ends() == 130, terminal.shown
    assert terminal.shown.endswith("nothing was written: .env is as it was\n")


def test_a_choice_that_fails_is_written_where_the_person_insists(tmp_path: Path) -> None:
    with LocalServer(model="small") as server:
        flags = ("--provider", "local", "--url", server.url, "--model", "small")
        server.policy = lambda _body: Says("no JSON at all")
        for answer, code in (("n", 1), ("y", 1)):
            with Terminal(tmp_path, "setup", *flags) as terminal:
                terminal.types("Write it all the same? [y/N]: ", answer)
                if answer == "y":
                    terminal.types("Write it? [Y/n]: ", "y")
                assert terminal.ends() == code, terminal.shown
            assert written(tmp_path).startswith("DESK_PROVIDER=local") is (answer == "y")


def test_what_is_not_there_is_asked_for_again(tmp_path: Path) -> None:
    with Terminal(tmp_path, "setup", OLLAMA_HOST="") as terminal:
        terminal.types("Number", "2")
        terminal.types("Base URL", f"http://127.0.0.1:{free_ports(1)[0]}/v1")
        terminal.types("Key (it is not shown; Enter for none): ", "")
        terminal.waits_for("cannot be reached")
        terminal.waits_for("What do you have?")
        terminal.interrupts()
        assert terminal.ends() == 130, terminal.shown
    assert written(tmp_path) == ""
