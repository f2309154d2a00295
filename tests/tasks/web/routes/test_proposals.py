"""Routes of proposals: made by words, confirmed under the scope of the act, once, as the card showed it."""

from __future__ import annotations

from typing import Any

import httpx

from chordesk.tasks import named_tokens
from chordesk.tasks.named_tokens import Scope, scope_of
from tests.parts import needs
from tests.tasks.web.conftest import Floor

pytestmark = needs("asking", "alerts")


def client_of(floor: Floor, name: str, *scopes: Scope) -> httpx.Client:
    running = floor.service
    with running.store.session() as session:
        token = named_tokens.add(session, running.processes.settings, name, scopes, "a test")
    return running.client(Authorization=f"Bearer {token}")


def test_a_token_confirms_what_it_may_do_itself_and_once(floor: Floor) -> None:
    def post(client: httpx.Client, path: str, by: str, **body: Any) -> httpx.Response:
        return client.post(f"/proposals{path}", json={"by": by, **body})

    with (
        client_of(floor, "Rae", Scope.READ) as reads,
        client_of(floor, "Sam", Scope.START) as starts,
        client_of(floor, "Dee", Scope.DECIDE) as decides,
    ):
        made = post(reads, "", "Rae", text="add IBM to watch list proposed")
        card = made.json()
        assert (made.status_code, card["scope"], card["state"], card["by"]) == (201, "start", "open", "Rae")
        assert card["id"] in [one["id"] for one in reads.get("/proposals").json()]
        for client, by in ((reads, "Rae"), (decides, "Dee")):
            refused = post(client, f"/{card['id']}/confirm", by, expect=card["shown"])
            assert (refused.status_code, refused.json()["kind"]) == (403, "wrong_scope")
        assert post(starts, f"/{card['id']}/confirm", "Rae", expect=card["shown"]).status_code == 403, "another's name"
        assert post(starts, f"/{card['id']}/confirm", "Sam", expect="0" * 64).status_code == 409
        assert post(starts, f"/{card['id']}/confirm", "Sam", expect="no").status_code == 422
        found = [post(starts, f"/{card['id']}/confirm", "Sam", expect=card["shown"]).json() for _ in range(2)]
        assert {one["state"] for one in found} == {"done"}
        assert "confirmed by Sam via the API" in found[0]["fate"]
        assert found[0] == found[1]
        halt = post(reads, "", "Rae", text="halt").json()
        assert post(starts, f"/{halt['id']}/confirm", "Sam", expect=halt["shown"]).status_code == 403
        assert post(starts, f"/{halt['id']}/dismiss", "Sam").status_code == 403
        assert post(reads, f"/{halt['id']}/dismiss", "Rae").json()["state"] == "dismissed"
        gone = post(floor.client, f"/{halt['id']}/confirm", "Ann Lee", expect=halt["shown"])
        assert (gone.status_code, "dismissed by Rae" in gone.json()["detail"]) == (409, True)
        told = {one["id"]: one["state"] for one in reads.get("/proposals", params={"over": True}).json()}
        assert (told[card["id"]], told[halt["id"]]) == ("done", "dismissed")


def test_a_question_by_get_proposes_nothing(floor: Floor) -> None:
    before = floor.client.get("/proposals", params={"over": True}).json()
    assert floor.client.get("/asks", params={"q": "halt"}).json()["intent"] == "propose"
    for words, status in (
        ("what is held", 409),
        ("", 422),
        ("approve nothing-like-it", 404),
        ("stop run 01a2b3c4", 404),
    ):
        assert floor.client.post("/proposals", json={"by": "ann", "text": words}).status_code == status, words
    assert floor.client.get("/proposals", params={"over": True}).json() == before
    assert floor.client.get("/proposals/01a2b3c4").status_code == 404
    kept = floor.client.post("/asks", json={"by": "ann", "question": "halt", "origin": "page"}).json()
    assert [one["title"] for one in kept["proposals"]] == ["halt trading of every account: paper"]
    assert floor.client.post("/proposals/01a2b3c4/confirm", json={"by": "ann", "expect": "0" * 64}).status_code == 404


def test_a_run_is_started_by_whoever_confirms_it(floor: Floor) -> None:
    card = floor.client.post("/proposals", json={"by": "ann", "text": "research IBM"}).json()
    path = f"/proposals/{card['id']}/confirm"
    done = floor.client.post(path, json={"by": "ann", "expect": card["shown"]}).json()
    assert (done["state"], "confirmed by ann via the API" in done["fate"]) == ("done", True)
    run = floor.client.get(f"/runs/{done['run_id']}/request").json()
    assert run == {"kind": "research", "symbols": ["IBM"]}
    stop = floor.client.post("/proposals", json={"by": "ann", "text": f"stop run {done['run_id']}"}).json()
    body = {"by": "ann", "expect": stop["shown"]}
    assert floor.client.post(f"/proposals/{stop['id']}/confirm", json=body).json()["state"] == "done"
    assert floor.client.get(f"/runs/{done['run_id']}").json()["state"] in ("stopping", "stopped")


def test_what_lies_beside_the_proposals_is_not_for_all_to_change() -> None:
    found = [scope_of("POST", path) for path in ("/proposals", "/proposals/1/confirm", "/proposalsx", "/asking/x")]
    assert found == [Scope.READ] * 2 + [Scope.OPERATE] * 2
