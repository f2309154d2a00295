"""Model servers: where they usually are, and what one says of itself."""

from __future__ import annotations

import pytest

from chordesk.models.errors import KeyRefused, ServerAway, WrongApi
from chordesk.tasks.cli.setup import setup_choices
from chordesk.tasks.cli.setup.setup_choices import (
    Access,
    Found,
    find_servers,
    has_responses,
    look_at_server,
    ollama_url,
    usual_places,
)
from chordesk.tasks.services.plan import free_ports
from tests.fakes.local_server import HTML, LocalServer, Raw
from tests.fakes.responses import FakeResponses, Status


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", None),
        ("ftp://box", None),
        ("box:port", None),
        ("box", "http://box:11434/v1"),
        ("127.0.0.1:5000", "http://127.0.0.1:5000/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        (":6000", "http://127.0.0.1:6000/v1"),
        ("[::]:88", "http://127.0.0.1:88/v1"),
        ("http://[::1]:77/", "http://[::1]:77/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box", "https://box:443/v1"),
        ('"box:1/ollama"', "http://box:1/ollama/v1"),
    ],
)
def test_what_ollama_host_names_is_read_as_ollama_reads_it(host: str, url: str | None) -> None:
    assert ollama_url(host) == url


def test_the_usual_places_are_on_loopback_and_ollamas_own_comes_first() -> None:
    usual = usual_places({})
    assert [(each.name, each.url) for each in usual] == [
        ("Ollama", "http://127.0.0.1:11434/v1"),
        ("llama.cpp", "http://127.0.0.1:8080/v1"),
        ("vLLM", "http://127.0.0.1:8000/v1"),
        ("LM Studio", "http://127.0.0.1:1234/v1"),
    ]
    assert usual_places({"OLLAMA_HOST": "box:1"}) == [Found("http://box:1/v1", name="Ollama"), *usual]
    assert usual_places({"OLLAMA_HOST": "0.0.0.0"}) == usual


def test_of_the_usual_places_those_are_shown_where_a_model_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer(kind="ollama", models=["a", "b"]) as good, LocalServer() as page, LocalServer() as locked:
        for server, reply in ((page, HTML), (locked, Status(401, {"error": {"message": "no key"}}))):
            server._page = lambda _path, _body, reply=reply: reply
        ports = [int(each.root.rpartition(":")[2]) for each in (good, page, locked)]
        places = [("Ollama", ports[0]), ("llama.cpp", ports[1]), ("vLLM", ports[2]), ("LM Studio", free_ports(1)[0])]
        monkeypatch.setattr(setup_choices, "USUAL", places)
        assert find_servers(usual_places({})) == [
            Found(good.url, ("a", "b"), name="Ollama"),
            Found(locked.url, needs_key=True, name="vLLM"),
        ]


def test_a_url_without_its_path_gets_it_where_the_server_has_its_models_there() -> None:
    with LocalServer(kind="ollama", models=["a"]) as server:
        server._page = _only_under_v1(server)
        assert look_at_server(Access(server.root)) == look_at_server(Access(server.url)) == Found(server.url, ("a",))


def _only_under_v1(server: LocalServer):
    page = server._page
    return lambda path, body: Status(404, {}) if path == "/models" else page(path, body)


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (HTML, WrongApi, "a page for browsers"),
        (Status(404, {"detail": "Not Found"}), WrongApi, "no chat completions: it answers 404"),
        (Status(307, {}, {"location": "/elsewhere"}), WrongApi, "redirects to .*/elsewhere"),
        (Status(401, {"error": {"message": "wrong key sk-abcdef123456"}}), KeyRefused, "refuses the key"),
        (Status(503, {"error": {"message": "Loading model"}}), ServerAway, "not ready: 503 Loading model"),
    ],
)
def test_what_is_no_model_server_is_named(reply: Raw | Status, error: type[Exception], words: str) -> None:
    with LocalServer(lambda _body: reply) as server:
        server._page = lambda _path, _body: reply
        with pytest.raises(error, match=words) as raised:
            look_at_server(Access(server.url, "sk-abcdef123456"))
    assert "abcdef" not in str(raised.value)


def test_a_responses_api_is_told_from_chat_completions() -> None:
    with FakeResponses() as endpoint, LocalServer() as server:
        assert has_responses(Access(endpoint.url))
        assert not has_responses(Access(server.url))
        assert look_at_server(Access(endpoint.url), responses=True) == Found(endpoint.url, ())
