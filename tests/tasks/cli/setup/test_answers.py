"""The choice, by flags and by what a person types."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from chordesk.models.errors import KeyRefused, ModelMissing, ServerAway, UsageError, WrongApi
from chordesk.models.settings import Settings
from chordesk.tasks.cli.setup import setup_choices
from chordesk.tasks.cli.setup.setup_choices import (
    OURS,
    Before,
    Choice,
    Flags,
    Key,
    Person,
    base_url,
    decide,
    key_path,
    market,
)
from tests.fakes.local_server import HTML, LocalServer
from tests.fakes.responses import FakeResponses, Seen, Status

SECRET = "sk-of-nobody-1234"


@pytest.fixture(autouse=True)
def _no_servers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server that may really be on this machine."""
    monkeypatch.setattr(setup_choices, "USUAL", ())
    for name in ("OLLAMA_HOST", *OURS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def before(tmp_path: Path) -> Callable[..., Before]:
    def made(**dotenv: str) -> Before:
        return Before(dotenv, Settings(home=tmp_path))

    return made


class Typed:
    """A person at the terminal who types these lines, and what was shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        self.shown = ""

    def __call__(self, asked: Callable[[Person], Any]) -> Any:
        with CliRunner().isolation(input="".join(f"{line}\n" for line in self._lines)) as streams:
            try:
                return asked(Person(terminal=True))
            finally:
                sys.stdout.flush()
                self.shown = streams[0].getvalue().decode()


def script(flags: Flags, before: Before) -> Choice:
    return decide(flags, before, Person(terminal=False))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (Flags(), "--provider is missing, and there is no terminal.*codex, endpoint, local, rulebook|--provider"),
        (Flags("gpt"), "--provider 'gpt' is none.*rulebook, codex, endpoint, local"),
        (Flags("codex", url="http://x"), "--url is given, and the provider codex has no use for it"),
        (Flags("rulebook", key_env="A"), "--key-env is given, and the provider rulebook"),
        (Flags("rulebook", model="m"), "the rulebook is no model"),
        (Flags("local", key_env="A", no_key=True), "--key-env and --no-key are given at once"),
        (Flags("local"), "--url is missing, and there is no terminal.*found here: no model server"),
        (Flags("endpoint"), "--url is missing"),
        (Flags("endpoint", url="http://127.0.0.1:1/v1"), "--key-env, --key-file or --no-key is missing"),
        (Flags("local", url="127.0.0.1:1"), "'127.0.0.1:1' is no base URL.*begins with http"),
        (Flags("local", url="http://127.0.0.1:1/v1", look=False), "--model is missing"),
        (Flags("codex", model=" "), "is no model's name"),
    ],
)
def test_without_a_terminal_what_is_missing_or_wrong_names_its_flag(
    flags: Flags, words: str, before: Callable[..., Before]
) -> None:
    with pytest.raises(UsageError, match=words):
        script(flags, before())


def test_flags_alone_are_a_choice(before: Callable[..., Before], tmp_path: Path) -> None:
    now = before()
    assert script(Flags("rulebook"), now) == Choice("rulebook")
    assert script(Flags("codex"), now) == Choice("codex", model="gpt-5.5")
    assert script(Flags("codex"), before(DESK_PROVIDER="codex", DESK_MODEL="gpt-5.4")).model == "gpt-5.4"
    assert script(Flags("codex"), before(DESK_PROVIDER="local", DESK_MODEL="qwen3:8b")).model == "gpt-5.5"
    with LocalServer(kind="ollama", models=["qwen3:8b", "phi:latest"]) as server:
        for model in ("qwen3:8b", "phi"):
            made = script(Flags("local", url=f"{server.root}/v1/chat/completions", model=model), now)
            assert made == Choice("local", server.url, model)
    with FakeResponses() as endpoint:
        (tmp_path / "key").write_text(f"{SECRET}\n", encoding="utf-8")
        made = script(Flags("endpoint", url=endpoint.url, model="any", key_file=tmp_path / "key"), now)
        assert made == Choice("endpoint", endpoint.url, "any", Key(SECRET, tmp_path / "key"))
        assert script(Flags("endpoint", url=endpoint.url, model="any", no_key=True), now).key == Key()


def test_a_key_of_a_variable_is_for_its_server_alone(
    before: Callable[..., Before], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    flags = Flags("endpoint", url="https://api.example.org:8443/v1", model="m", key_env="MY_KEY", look=False)
    assert script(flags, before()).key == Key(SECRET, tmp_path / "keys" / "api.example.org-8443.key", kept=True)
    assert key_path(tmp_path, "http://[::1]:1/v1").name == "__1-1.key"


def test_a_key_that_the_file_has_stays_for_the_same_url_and_goes_to_no_other(before: Callable[..., Before]) -> None:
    now = before(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL="https://one/v1", DESK_PROVIDER_KEY=SECRET)
    for url in ("https://one/v1/", "https://one"):
        same = script(Flags("endpoint", url=url, model="m", look=False), now)
        assert same.key == Key(SECRET, known=True)
    assert "DESK_PROVIDER_KEY" not in same.variables()
    other = script(Flags("local", url="http://two/v1", model="m", look=False), now)
    assert other.key == Key()
    assert other.variables()["DESK_PROVIDER_KEY"] is None
    assert "DESK_PROVIDER_KEY" not in script(Flags("codex"), now).variables()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (Flags("local", key_env=SECRET), "--key-env is no variable's name"),
        (Flags("local", key_env="NOT_SET_AT_ALL"), "--key-env NOT_SET_AT_ALL: no such variable"),
        (Flags("local", key_env="TWO_WORDS"), "--key-env is no key"),
        (Flags("local", key_file=Path(SECRET)), "--key-file=.*cannot be read"),
    ],
)
def test_a_wrong_key_is_refused_and_not_repeated(
    flags: Flags, words: str, before: Callable[..., Before], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWO_WORDS", f"{SECRET} and more")
    flags = Flags("local", "http://127.0.0.1:1/v1", "m", flags.key_env, flags.key_file)
    with pytest.raises(UsageError, match=words) as raised:
        script(flags, before())
    assert "nobody" not in str(raised.value)


def test_what_a_server_has_not_is_named_with_what_it_has(before: Callable[..., Before]) -> None:
    with LocalServer(kind="ollama", models=["qwen3:8b", "llama3.2:3b"]) as server:
        with pytest.raises(
            ModelMissing, match=r"has no model 'qwen3:4b'; it has qwen3:8b, llama3.2:3b \(take qwen3:8b"
        ):
            script(Flags("local", url=server.url, model="qwen3:4b"), before())
        with pytest.raises(UsageError, match=r"--model is missing.*has qwen3:8b, llama3.2:3b"):
            script(Flags("local", url=server.url), before())
        with pytest.raises(WrongApi, match=r"has no Responses API.*--provider local"):
            script(Flags("endpoint", url=server.url, model="qwen3:8b", no_key=True), before())
    with LocalServer(lambda _body: HTML) as server:
        server._page = lambda _path, _body: HTML
        with pytest.raises(WrongApi, match="a page for browsers"):
            script(Flags("local", url=server.url, model="m"), before())
    with pytest.raises(ServerAway, match="cannot be reached"):
        script(Flags("local", url=server.url, model="m"), before())


class Locked(LocalServer):
    """A server that wants a key, of everyone."""

    def _page(self, path: str, body: Any) -> Any:
        given = self.requests[-1].headers.get("authorization")
        return super()._page(path, body) if given == f"Bearer {SECRET}" else Status(401, {"error": "no"})

    async def answer(self, seen: Seen, receive: Any, send: Any) -> None:
        if seen.headers.get("authorization") != f"Bearer {SECRET}":
            self._queue.appendleft(Status(401, {"error": {"message": "no"}}))
        await super().answer(seen, receive, send)


def test_a_server_that_wants_a_key_asks_for_it_until_it_is_right(
    before: Callable[..., Before], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Locked(models=["a", "b"]) as server:
        typed = Typed("wrong", SECRET, "2")
        made = typed(lambda person: decide(Flags("local", url=server.url), before(), person))
        assert made == Choice("local", server.url, "b", Key(SECRET, key_path(tmp_path, server.url), kept=True))
        assert typed.shown.count("refuses the key") == 2
        assert "nobody" not in typed.shown
        assert "nobody" not in repr(made)
        monkeypatch.setenv("MY_KEY", "wrong")
        with pytest.raises(KeyRefused, match="give the right one by --key-env or --key-file"):
            script(Flags("local", url=server.url, model="a", key_env="MY_KEY"), before())


def test_a_person_takes_a_model_that_was_found_by_its_number(
    before: Callable[..., Before], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer(kind="ollama", models=["a", "b"]) as ollama, LocalServer(model="c") as other:
        monkeypatch.setattr(setup_choices, "USUAL", [("llama.cpp", int(other.root.rpartition(":")[2]))])
        monkeypatch.setenv("OLLAMA_HOST", ollama.root.removeprefix("http://"))
        typed = Typed("7", "3", "2")
        assert typed(lambda person: decide(Flags(), before(), person)) == Choice("local", ollama.url, "b")
        assert "found here: Ollama, llama.cpp" in typed.shown
        assert "'7' is none of the numbers" in typed.shown
        assert "Number [3]" in typed.shown
        assert f"  3  llama.cpp  {other.url}  c\n" in typed.shown
        now = before(DESK_PROVIDER="local", DESK_PROVIDER_URL=other.url, DESK_MODEL="c")
        typed = Typed("", "")
        assert typed(lambda person: decide(Flags(), now, person)) == Choice("local", other.url, "c")
        typed = Typed("4", other.url, "")
        assert typed(lambda person: decide(Flags("local"), before(), person)) == Choice("local", other.url, "c")


def test_an_endpoint_of_chat_completions_becomes_a_model_server(before: Callable[..., Before]) -> None:
    with LocalServer(model="c") as server:
        typed = Typed("2", server.url, SECRET, "1")
        made = typed(lambda person: decide(Flags(), before(), person))
    assert (made.provider, made.url, made.model, made.key.text) == ("local", server.url, "c", SECRET)
    assert "has no Responses API: it is asked by chat completions" in typed.shown
    assert "nobody" not in typed.shown


def test_a_codex_model_has_a_default_and_the_rulebook_asks_nothing_more(before: Callable[..., Before]) -> None:
    assert Typed("1", "")(lambda person: decide(Flags(), before(), person)) == Choice("codex", model="gpt-5.5")
    assert Typed("4")(lambda person: decide(Flags(), before(), person)) == Choice("rulebook")
    with pytest.raises(UsageError, match="--url is given, and the provider codex"):
        Typed("1")(lambda person: decide(Flags(url="http://x"), before(), person))
    with pytest.raises(typer.Abort):
        Typed()(lambda person: decide(Flags(), before(), person))


def test_the_market_is_asked_for_with_the_rest_and_stays_without_its_flag(before: Callable[..., Before]) -> None:
    now = before(DESK_MARKET="yahoo")
    assert market(Flags("codex"), now, Person(terminal=False)) is None
    assert market(Flags("codex"), now, Person(terminal=True)) is None
    assert market(Flags(market="replay"), now, Person(terminal=False)) == "replay"
    assert Typed("")(lambda person: market(Flags(), now, person)) == "yahoo"
    assert Typed("1")(lambda person: market(Flags(), now, person)) == "replay"
    for name, words in (("nyse", "--market 'nyse' is none.*replay, yahoo, files"), ("files", "set DESK_DATA")):
        with pytest.raises(UsageError, match=words):
            market(Flags(market=name), now, Person(terminal=False))


def test_the_base_url_is_taken_from_a_copied_one_and_no_key_is_repeated() -> None:
    for text in ("https://a/v1/", " https://a/v1/chat/completions", "https://a/v1/responses"):
        assert base_url(text) == "https://a/v1"
    for text in ("", "sk-of-nobody-1234", "https://", "ftp://a"):
        with pytest.raises(UsageError, match="is no base URL") as raised:
            base_url(text)
        assert "nobody" not in str(raised.value)
