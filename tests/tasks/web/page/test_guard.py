"""What the service answers without its token: the page's files, a session for a code, and the shell to a person who
opens it. Nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from chordesk.models.errors import UsageError
from chordesk.tasks import named_tokens
from chordesk.tasks.web.page.page_sessions import new_code
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.web.kit import Service, messages, service
from tests.tasks.web.test_security import problem

OPENING = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site"}


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as found:
        yield found


@pytest.fixture
def stranger(running: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        yield client


def code(running: Service) -> str:
    return new_code(running.processes.environ["DESK_REDIS_URL"], "Ann")


def test_a_person_opens_the_shell_from_any_link(running: Service, stranger: httpx.Client) -> None:
    for headers in (OPENING, {**OPENING, "Sec-Fetch-Site": "none"}, {"Accept": "text/html,*/*"}):
        answer = stranger.get("/", headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "require-trusted-types-for 'script'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "set-cookie" not in answer.headers
    with running.client() as program:
        assert program.get("/").json()["home"], "a program with the token gets what it got"
    assert problem(stranger.get("/", headers={**OPENING, "Host": "evil.example"}), 421) == "wrong_host"


def test_a_navigation_opens_nothing_but_the_shell(stranger: httpx.Client) -> None:
    for way in ("/runs", "/openapi.json", "/session", "/page/../runs", "/nothing"):
        assert stranger.get(way, headers=OPENING).status_code in (401, 403), way
    framed = {**OPENING, "Sec-Fetch-Dest": "iframe"}
    assert problem(stranger.get("/", headers=framed), 403) == "foreign_origin"
    assert problem(stranger.get("/", headers={**framed, "Sec-Fetch-Site": "same-origin"}), 401) == "no_token"
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        assert stranger.request(method, "/", headers=OPENING).status_code in (401, 403), method
    assert stranger.get("/").status_code == 401


def test_files_are_for_pages_of_this_server_alone(stranger: httpx.Client) -> None:
    answer = stranger.get("/page/app.js", headers={"Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert answer.headers["content-encoding"] == "gzip"
    whole = stranger.get("/page/app.js", headers={"Accept-Encoding": "identity"})
    assert ("content-encoding" in whole.headers, whole.content) == (False, answer.content)
    again = stranger.get("/page/app.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for site in ("same-site", "cross-site"):
        assert problem(stranger.get("/page/app.js", headers={"Sec-Fetch-Site": site}), 403) == "foreign_origin"
    foreign = {"Origin": "http://127.0.0.1:1"}
    assert problem(stranger.get("/page/app.js", headers=foreign), 403) == "foreign_origin"
    assert problem(stranger.post("/page/app.js", json={}), 401) == "no_token"


@pytest.mark.parametrize(
    "name",
    ["../sessions.py", "..%2fsessions.py", "%2e%2e/sessions.py", "vendor", "vendor/", "lib/../../sessions.py",
     "app.js/", "/etc/passwd", "%00", "__init__.py", "\\..\\sessions.py"],
)  # fmt: skip
def test_no_name_leads_out_of_the_pages_files(running: Service, name: str) -> None:
    status = running.raw(f"GET /page/{name} HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n\n")
    assert status in (400, 401, 404)


def test_no_other_route_answers_without_the_token(running: Service, stranger: httpx.Client) -> None:
    with running.client() as program:
        described = program.get("/openapi.json")
    assert described.headers["content-encoding"] == "gzip"
    paths = described.json()["paths"]
    asked = [(method, path) for path, operations in paths.items() for method in operations]
    open_ = [(method, path) for method, path in asked if stranger.request(method, path, json={}).status_code != 401]
    assert open_ == [("post", "/session")]


def test_a_session_is_had_for_a_code_once(running: Service, stranger: httpx.Client) -> None:
    made = code(running)
    begun = stranger.post("/session", json={"code": made})
    assert begun.status_code == 201
    assert problem(stranger.post("/session", json={"code": made}), 403) == "wrong_code"
    headers = {"Authorization": f"Bearer {begun.json()['token']}"}
    shown = stranger.get("/session", headers=headers).json()
    assert shown == {"by": "Ann", "until": begun.json()["until"], "device": None}
    assert stranger.get("/runs", headers=headers).status_code == 200
    assert stranger.post("/session/end", json={}, headers=headers).json() == {"all": False}
    assert problem(stranger.get("/runs", headers=headers), 401) == "no_token"
    assert problem(stranger.post("/session/end", json={"all": True}), 401) == "no_token"


def test_a_page_of_another_server_cannot_log_in(running: Service, stranger: httpx.Client) -> None:
    made = code(running)
    for headers in ({"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}):
        assert problem(stranger.post("/session", json={"code": made}, headers=headers), 403) == "foreign_origin"
    form = stranger.post("/session", content=f'{{"code":"{made}"}}', headers={"Content-Type": "text/plain"})
    assert problem(form, 415) == "wrong_content_type"
    own = {"Origin": running.url, "Sec-Fetch-Site": "same-origin"}
    assert stranger.post("/session", json={"code": made}, headers=own).status_code == 201


@pytest.mark.long
def test_a_stream_ends_with_its_session(running: Service, stranger: httpx.Client) -> None:
    begun = stranger.post("/session", json={"code": code(running)}).json()
    headers = {"Authorization": f"Bearer {begun['token']}"}
    with stranger.stream("GET", "/runs/desk/events", headers=headers) as response:
        stranger.post("/session/end", json={"all": True}, headers=headers)
        for message in messages(response):
            assert message.comment is not None, "no event after the end"
    assert problem(stranger.get("/runs", headers=headers), 401) == "no_token"
    with running.client() as program:
        assert program.get("/runs").status_code == 200, "the API token is no session"


def test_without_redis_the_token_is_enough_and_a_session_is_not() -> None:
    with service() as alone, alone.client() as program:
        session = httpx.post(f"{alone.url}/session", json={"code": code(alone)}).json()
        alone.processes.end("redis")
        asked = httpx.get(
            f"{alone.url}/runs", headers={"Authorization": f"Bearer {session['token']}"}, timeout=PATIENCE
        )
        assert problem(asked, 503) == "redis_down"
        assert program.get("/runs").status_code == 200


def test_a_session_acts_as_its_person_alone(running: Service, stranger: httpx.Client) -> None:
    token = stranger.post("/session", json={"code": code(running)}).json()["token"]
    stranger.headers["Authorization"] = f"Bearer {token}"
    assert problem(stranger.post("/halt", json={"by": "bob the boss"}), 403) == "another_name"
    assert problem(stranger.post("/runs/none/stop", json={"by": "bob the boss"}), 403) == "another_name"
    assert stranger.post("/runs/none/stop", json={"by": "Ann"}).status_code == 404


def test_a_named_token_does_what_its_scopes_say_in_its_name_until_it_is_revoked(
    running: Service, stranger: httpx.Client
) -> None:
    settings = running.processes.settings
    with running.store.session() as session:
        for wrong in ("ci bot ", "\uff43\uff49 bot"):  # looks the same in a list
            with pytest.raises(UsageError, match="is no name"):
                named_tokens.add(session, settings, wrong, [named_tokens.Scope.READ], "Ann")
        made = named_tokens.add(session, settings, "ci bot", [named_tokens.Scope.DECIDE], "Ann")
    with running.store.read() as session:
        (row,) = named_tokens.listed(session)
    assert made not in row.model_dump_json()
    stranger.headers["Authorization"] = f"Bearer {made}"
    assert stranger.get("/approvals").json() == []
    assert problem(stranger.post("/runs", json={"kind": "research", "symbols": ["IBM"]}), 403) == "wrong_scope"
    assert problem(stranger.post("/halt", json={"by": "ci bot"}), 403) == "wrong_scope"
    answer = {"answer": "approve", "by": "ci bot"}
    assert stranger.post("/approvals/00000000none", json=answer).status_code == 404
    assert problem(stranger.post("/approvals/00000000none", json={**answer, "by": "Ann"}), 403) == "another_name"
    with running.store.session() as session:
        named_tokens.revoke(session, settings, "ci bot", "Ann")
    wait_for(lambda: stranger.get("/approvals").status_code == 401, "the token is refused")
