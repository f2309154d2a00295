"""Requests that a web page can send are refused, with the token or without; and reading changes nothing."""

from __future__ import annotations

import hashlib
import sqlite3

import httpx
import pytest

from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.tasks import approval_requests
from tests.tasks.web.conftest import Floor
from tests.tasks.web.kit import Service, a_board, a_picture, an_experiment

PATHS = ("/runs", "/openapi.json", "/nothing", "/approvals")
SCREEN = '{"kind":"screen","by":"ann","symbols":["KO"]}'
FORM = "application/x-www-form-urlencoded"


def problem(response: httpx.Response, status: int) -> str:
    """The kind of the problem that answers, after a look at its shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert {"type", "title", "kind", "detail", "remedy"} <= set(body)
    return str(body["kind"])


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_answered_without_the_token(floor: Floor, path: str) -> None:
    token = floor.service.token
    wrong = ("", "Bearer", f"Basic {token}", token, f"Bearer {token}x", f"Bearer {token[:-1]}", "Bearer é")
    for given in wrong:
        response = httpx.get(f"{floor.service.url}{path}", headers={"Authorization": given.encode()})
        assert problem(response, 401) == "no_token", given
        assert response.headers["www-authenticate"] == "Bearer"
    assert problem(httpx.get(f"{floor.service.url}{path}"), 401) == "no_token"
    assert problem(httpx.get(f"{floor.service.url}{path}", params={"token": token}), 401) == "no_token"
    assert problem(httpx.get(f"{floor.service.url}{path}", cookies={"token": token}), 401) == "no_token"


def test_two_tokens_are_none(floor: Floor) -> None:
    good = f"Bearer {floor.service.token}"
    headers = [("Authorization", good), ("Authorization", "Bearer x")]
    assert problem(httpx.get(f"{floor.service.url}/runs", headers=headers), 401) == "no_token"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.", "0.0.0.0:{port}", "127.0.0.2",
     "127.0.0.1@evil.example", "[::2]:{port}", "localhost:", "127.0.0.1, evil.example", "127.0.0.1:{port}/x"],
)  # fmt: skip
def test_a_name_that_was_made_to_point_here_is_not_answered(floor: Floor, host: str) -> None:
    """DNS rebinding: the page's own name, resolved to 127.0.0.1, is what the browser sends as Host."""
    named = host.format(port=floor.service.port)
    assert problem(floor.client.get("/runs", headers={"Host": named}), 421) == "wrong_host"


def test_a_host_is_given_once(floor: Floor) -> None:
    authorization = f"Authorization: Bearer {floor.service.token}\n"
    ask = floor.service.raw
    assert ask(f"GET /runs HTTP/1.1\nHost: 127.0.0.1\n{authorization}Connection: close\n\n") == 200
    for hosts in ("", "Host: 127.0.0.1\nHost: evil.example\n", "Host: \n"):
        assert ask(f"GET /runs HTTP/1.1\n{hosts}{authorization}Connection: close\n\n") in (400, 421), hosts
    assert ask(f"GET /runs HTTP/1.0\n{authorization}\n") == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:{port}", "localhost", "[::1]:{port}"])
def test_names_of_loopback_are(floor: Floor, host: str) -> None:
    assert floor.client.get("/runs", headers={"Host": host.format(port=floor.service.port)}).status_code == 200


FOREIGN = (
    "https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "http://localhost:{port}", "",
    "file://", "http://127.0.0.1:{port}.evil.example", "http://evil.example#127.0.0.1:{port}", "{url}/", "chrome://x",
)  # fmt: skip


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_page_of_another_server_is_refused_even_with_the_token(floor: Floor, origin: str) -> None:
    headers = {"Origin": origin.format(port=floor.service.port, url=floor.service.url)}
    assert problem(floor.client.get("/runs", headers=headers), 403) == "foreign_origin"
    path, body = f"/runs/{floor.chain.run_id}/stop", {"by": "ann"}
    response = floor.client.post(path, headers=headers, json=body)
    assert problem(response, 403) == "foreign_origin"
    assert "access-control-allow-origin" not in response.headers


def test_the_servers_own_origin_passes_and_the_other_of_two_does_not(floor: Floor) -> None:
    own = ("Origin", floor.service.url)
    assert floor.client.get("/runs", headers=[own]).status_code == 200
    assert floor.client.get("/runs", headers=[own, ("Origin", "https://evil.example")]).status_code == 403


def test_the_fetch_headers_of_a_browser_count_without_an_origin_too(floor: Floor) -> None:
    """An image, a script or a form of another page carries no Origin when it only asks."""
    for site, status in (("cross-site", 403), ("same-site", 403), ("none", 200), ("same-origin", 200)):
        assert floor.client.get("/runs", headers={"Sec-Fetch-Site": site}).status_code == status, site


def test_no_preflight_is_granted(floor: Floor) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    response = httpx.options(f"{floor.service.url}/approvals/x", headers=asked)
    assert problem(response, 403) == "foreign_origin"
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("given", [FORM, "multipart/form-data; boundary=x", "text/plain", "application/jsonx", ""])
def test_content_types_of_forms_are_refused(floor: Floor, given: str) -> None:
    """Of all that a page may send without asking first, none is JSON."""
    path = f"/runs/{floor.chain.run_id}/stop"
    headers = {"Content-Type": given} if given else {}
    response = floor.client.post(path, content=b'{"by":"ann"}', headers=headers)
    assert problem(response, 415) == "wrong_content_type"
    assert problem(floor.client.post(path), 415) == "wrong_content_type"


def test_every_route_that_takes_a_body_takes_json_alone(floor: Floor) -> None:
    paths = floor.client.get("/openapi.json").json()["paths"]
    changing = [(path, method) for path, operations in paths.items() for method in operations if method != "get"]
    assert {method for _, method in changing} == {"post"}
    assert len(changing) >= 2
    for path, _ in changing:
        names = {"run_id": floor.chain.run_id, "id_": floor.chain.order_id, "thread_id": "thread", "turn_id": "turn"}
        names |= {"voice": "weaver", "name": "midday", "symbol": "ACME"}
        asked = path.format(**names)
        assert problem(floor.client.post(asked, data={"by": "ann"}), 415) == "wrong_content_type"


def test_a_body_has_a_length_and_a_limit(floor: Floor) -> None:
    path = f"/runs/{floor.chain.run_id}/stop"
    json = {"Content-Type": "application/json; charset=utf-8"}
    chunked = floor.client.post(path, content=iter([b'{"by":', b'"ann"}']), headers=json)
    assert problem(chunked, 411) == "no_length"
    large = floor.client.post(path, content=b'{"by":"' + b"a" * 70_000 + b'"}', headers=json)
    assert problem(large, 413) == "too_large"


def test_other_methods_are_refused(floor: Floor) -> None:
    for method in ("PUT", "DELETE", "PATCH", "POST"):
        assert problem(floor.client.request(method, "/threads", json={}), 405) == "method_not_allowed"
    assert floor.client.head("/threads").status_code == 405


def test_every_answer_forbids_pages_to_read_it(floor: Floor) -> None:
    for response in (floor.client.get("/runs"), floor.client.get("/nothing"), httpx.get(floor.service.url)):
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


def whole_database(service: Service) -> str:
    """A digest of all that the database holds, but what processes say of themselves and sums that are kept."""
    own = ('INSERT INTO "process"', 'INSERT INTO "score_mark"')
    with sqlite3.connect(service.processes.home / "desk.db") as connection:
        lines = [line for line in connection.iterdump() if not line.startswith(own)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_asking_changes_nothing(floor: Floor) -> None:
    """Every GET there is, on rows that are there: the database is the same, to the byte."""
    paths = floor.client.get("/openapi.json").json()["paths"]
    chain = floor.chain
    request = ApprovalRequest("command", "thread-1", "turn-1", "item-1", None, {"command": "ls", "cwd": "/work"})
    with floor.service.store.session() as session:
        approval_requests.add_request(session, "request-1", request, Scope(chain.run_id, role="quick"), 60)
        turn_id = session.connection().exec_driver_sql("select id from turn limit 1").scalar_one()
        report_id = session.connection().exec_driver_sql("select id from report limit 1").scalar_one()
    known = {
        "run_id": chain.run_id, "order_id": chain.order_id, "symbol": "ACME", "turn_id": turn_id,
        "account": "paper", "report_id": report_id, "verdict_id": chain.verdict_id, "other_id": chain.run_id,
        "thread_id": "thread-trader", "digest": a_picture(floor.service, b"drawn"),
        "question_id": a_board(floor.service, chain.run_id), "id_": "request-1",
        "experiment_id": an_experiment(floor.service), "proposal": "",
    }  # fmt: skip
    if "/asks" in paths:
        entry = floor.client.post("/asks", json={"by": "ann", "question": "status"}).json()
        proposed = floor.client.post("/proposals", json={"by": "ann", "text": "halt"}).json()
        known |= {"ask": entry["id"], "dialogue": entry["dialogue"], "proposal": proposed["id"]}
    paths = [path.replace("/proposals/{id_}", "/proposals/{proposal}") for path in paths if "get" in paths[path]]
    asked = [path.format(**known) for path in paths]
    # A run that has not ended: its events would go on.
    asked = [path for path in asked if not path.endswith("/events")] + [f"/orders/{chain.order_id}?log=true"]
    needed = {"/spending": f"?asked={SCREEN}", "/asks": "?q=status"}
    asked = [f"{path}{needed.get(path, '')}" for path in asked]
    asked = [path.replace("/ACME/picture", "/KO/picture") for path in asked]  # the replay has no bars of ACME
    assert len(asked) >= 12
    before = whole_database(floor.service)
    for path in asked:
        assert floor.client.get(path).status_code == 200, path
    assert whole_database(floor.service) == before
