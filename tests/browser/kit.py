"""A desk with its page: a finished screen, a run with turns in flight, and a browser that is logged in."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect
from sqlmodel import col, delete, select

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import EventType, event
from chordesk.models.states import RUN_FINAL, StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Run, Step
from chordesk.models.tables.runtime import EventBatch, EventHead
from chordesk.models.text import ID_LETTERS
from chordesk.tasks.web.page.page_sessions import new_code
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tools.orders.sessions import to_next_session
from tests.browser.record import Record, a_record
from tests.patience import PATIENCE
from tests.stack import processes, wait_for
from tests.tasks.web.kit import Service, start

SYMBOLS = "AAPL,IBM,KO,MMM,XOM,JPM,GE,WMT"
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
BY = "Ann"

# A wrong expectation waits that long: what a page shows takes a second or two on a busy machine.
EXPECTED_MS = PATIENCE * 250
expect.set_options(timeout=EXPECTED_MS)


def short(id_: str) -> str:
    """The form in which the page shows an id."""
    return id_[-ID_LETTERS:]


@dataclass
class DeskPage:
    """The desk behind the page. run: a screen that has ended, with orders that wait and one that is filled; flying: a
    research run with turns in flight, for as long as nothing calls `thaw`; record: what was made for it."""

    service: Service
    run: str
    flying: str
    record: Record | None = None
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.service.url

    def code(self, by: str = BY) -> str:
        return new_code(self.service.processes.environ["DESK_REDIS_URL"], by)

    def link(self, way: str = "") -> str:
        """A login link of its own, as `desk page` prints it. way: the view, `/runs`."""
        return f"{self.url}/#{self.code()}{way}"

    def freeze(self) -> None:
        """Let the model answer nothing from here on: turns stay in flight."""
        self.service.processes.running["rulebook"].send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.service.processes.running["rulebook"].send_signal(signal.SIGCONT)

    def last_event(self, run_id: str) -> int:
        """Return the sequence of a run's newest event."""
        with self.service.store.read() as session:
            return event_log.head(session, run_id)[1]

    def add_run(self, kind: str, schedule: str | None = None, symbols: Sequence[str] = ()) -> str:
        """Add a run that has begun, with candidates, as the desk would; return its id."""
        with self.service.store.session() as session:
            run = session.get_one(Run, self.run).model_copy(
                update={"id": new_id(), "kind": kind, "state": "running", "schedule": schedule, "slot": new_id()[:8]}
            )
            made = Run.model_validate({**run.model_dump(), "created_at": utcnow(), "finished_at": None})
            session.add(made)
            session.flush()
            row = {"run_id": made.id, "instrument": "equity", "origin": "screen", "score": 1.0}
            session.add_all(Candidate(symbol=symbol, rank=rank, **row) for rank, symbol in enumerate(symbols, 1))
            event_log.append(session, [event(EventType.RUN_STARTED, made.id, kind=kind)])
            return made.id

    def remove_run(self, run_id: str) -> None:
        """Take away a run of `add_run`."""
        with self.service.store.session() as session:
            for table in (Candidate, EventBatch, EventHead):
                session.exec(delete(table).where(col(table.run_id) == run_id))  # type: ignore[call-overload]
            session.exec(delete(Run).where(col(Run.id) == run_id))  # type: ignore[call-overload]

    def stop_run(self, run_id: str) -> None:
        with self.service.client() as client:
            assert client.post(f"/runs/{run_id}/stop", json={"by": BY}).is_success

    def watch(self, context: BrowserContext) -> None:
        """Note what the pages of a context ask for, and what the browser complains of."""
        context.on("request", self._note)
        context.on("console", self._complain)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def _note(self, request: Request) -> None:
        self.requests.append(request.url)

    def _complain(self, message: ConsoleMessage) -> None:
        # A request that fails on purpose is a line of the browser's own, and no error of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self, page: Page, way: str, name: str | None = None) -> None:
        """Go to a view as its menu does, within the page; name: the heading that must show."""
        page.goto(f"{self.url}/#{way}")
        if name is not None:
            expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


@contextlib.contextmanager
def desk_page(*, recorded: bool = False) -> Iterator[DeskPage]:
    """A desk of real workers on the replay; a person approves its orders. recorded: it has a record too, and the next
    session has come, at whose open the approved order was filled."""
    with processes(TRADER_LIVE="1", DESK_APPROVAL="manual", DESK_REPLAY_DATE="2010-08-12") as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        store = desk.app.desk.store
        screen = open_screen(desk.app, SYMBOLS, max_candidates=4)
        assert screen is not None
        wait_for(lambda: _state(store, screen.id) in RUN_FINAL, "the screen ends")
        url, token = start(desk)
        service = Service(desk, store, url, token)
        _approve_one(service, screen.id)
        if recorded:
            to_next_session(store, desk.app.desk.settings)
        found = DeskPage(service, screen.id, "", a_record(desk) if recorded else None)
        found.freeze()
        found.flying = open_research(desk.app, ["IBM", "KO"]).id
        wait_for(lambda: _in_flight(store, found.flying), "its turns are in flight")
        try:
            yield found
        finally:
            found.thaw()


def _state(store: Store, run_id: str) -> str:
    with store.read() as session:
        return str(session.get_one(Run, run_id).state)


def _in_flight(store: Store, run_id: str) -> bool:
    running = select(Step.id).where(Step.run_id == run_id, Step.state == StepState.RUNNING.value)
    with store.read() as session:
        return session.exec(running.where(col(Step.role) != "")).first() is not None


def _approve_one(service: Service, run_id: str) -> None:
    def sent() -> bool:
        with service.store.read() as session:
            found = select(Order.id).where(Order.run_id == run_id, Order.state == "submitted")
            return session.exec(found).first() is not None

    with service.client() as client:
        waiting = client.get("/approvals").json()
        assert waiting, "no order waits"
        answer = client.post(f"/approvals/{waiting[0]['order']['id']}", json={"answer": "approve", "by": BY})
        assert answer.status_code == 200, answer.text
    wait_for(sent, "the approved order is sent")


@contextlib.contextmanager
def logged_in(browser: Browser, desk: DeskPage, **options: object) -> Iterator[Page]:
    """A page in a context of its own that is logged in and shows the desk."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)  # type: ignore[arg-type]
    context.set_default_timeout(EXPECTED_MS)
    desk.watch(context)
    try:
        page = context.new_page()
        page.goto(desk.link())
        expect(page).to_have_url(re.compile(r"#/$"))
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        yield page
    finally:
        context.close()


# A row with the elements, classes and states of one before it has its colours and roles too: axe is asked once.
AXE_RUN = """options => {
  const seen = new Set();
  for (const row of document.querySelectorAll('tbody tr, li')) {
    const shape = row.outerHTML.replace(/>[^<]*/g, '>')
      .replace(/ ([\\w-]+)="[^"]*"/g, (all, name) => /^(class|role|type)$/.test(name) ? all : ' ' + name);
    row.toggleAttribute('data-again', seen.has(shape));
    seen.add(shape);
  }
  return axe.run({exclude: ['[data-again]']}, options).then(answer => answer.violations);
}"""


# The contrast of a text follows from its own style and those of all that it is in; axe takes a second of CPU to look at
# each text of a view. Of those that are alike it is asked about the first few: one of them may be out of sight.
CONTRAST_RUN = """options => {
  const chains = new Map(), numbers = new Map(), shown = new Map();
  const numbered = (text) => numbers.get(text) ?? numbers.set(text, numbers.size).get(text);
  const chain = (one) => {
    if (!one) return 0;
    if (!chains.has(one)) {
      const its = getComputedStyle(one);
      chains.set(one, numbered([chain(one.parentElement), one.tagName, one.getAttribute('class'), its.color,
        its.opacity, its.backgroundColor, its.backgroundImage, its.filter, its.fontSize, its.fontWeight].join('|')));
    }
    return chains.get(one);
  };
  const hasText = (one) => /^(input|textarea|select)$/i.test(one.tagName)
    || [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  for (const one of document.querySelectorAll('body *')) {
    const asked = hasText(one) && one.checkVisibility({ visibilityProperty: true });
    const before = asked ? shown.get(chain(one)) ?? 0 : 0;
    if (asked) shown.set(chain(one), before + 1);
    one.toggleAttribute('data-asked', asked && before < 3);
  }
  return axe.run({include: ['[data-asked]']}, options).then(answer => answer.violations);
}"""
CONTRAST = "color-contrast"


def violations(page: Page, rule: str | None = None) -> list[str]:
    """Return what axe finds wrong with the view, by all rules or by that of contrast alone: the rule, and the
    elements."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
    alone = {"resultTypes": ["violations"]}
    found = page.evaluate(CONTRAST_RUN, {**alone, "runOnly": [CONTRAST]})
    if rule != CONTRAST:
        found += page.evaluate(AXE_RUN, {**alone, "rules": {CONTRAST: {"enabled": False}}})
    return [f"{one['id']}: {', '.join(node['html'][:120] for node in one['nodes'][:3])}" for one in found]


def overflow(page: Page) -> int:
    """Return by how many pixels the view is wider than its window, once what is drawn to measure is drawn anew."""
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    until = time.monotonic() + EXPECTED_MS / 1000
    while (found := int(page.evaluate(wider))) > 0 and time.monotonic() < until:
        page.wait_for_timeout(50)
    return found
