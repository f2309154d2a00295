"""Live events in the browser: over cuts, a hidden tab and a restart of the service; and lists that stay short."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from chordesk.models import event_log
from chordesk.models.events import EventType, event
from chordesk.models.tables.runs import Run
from chordesk.tasks.events.deltas import DeltaPublisher
from tests.browser.kit import DeskPage, short
from tests.stack import wait_for
from tests.tasks.web.kit import start

# The first three answers are cut off in the middle of a message, after so many bytes.
CUT = """async ([path, wanted]) => {
  const { Live } = await import('/page/lib/live.js');
  const real = window.fetch;
  const cuts = [700, 1500, 4100];
  const asked = [];
  window.fetch = async (url, options) => {
    const answer = await real(url, options);
    if (!String(url).startsWith(path) || answer.status !== 200) return answer;
    asked.push(options.headers['Last-Event-ID'] ?? null);
    const limit = cuts.shift();
    if (!limit) return answer;
    const reader = answer.body.getReader();
    let left = limit;
    const body = new ReadableStream({ async pull(controller) {
      const { value, done } = await reader.read();
      if (done || !left) { controller.error(new TypeError('cut')); return; }
      controller.enqueue(value.slice(0, left));
      left = Math.max(left - value.length, 0);
      if (!left) { controller.error(new TypeError('cut')); reader.cancel(); }
    } });
    return new Response(body, { status: 200, headers: answer.headers });
  };
  const found = [];
  await new Promise((resolve) => {
    const live = new Live(path, { since: 0, onEvents: (events) => {
      found.push(...events.map((one) => one.sequence));
      if (found.length >= wanted) { live.stop(); resolve(); }
    } }).start();
  });
  window.fetch = real;
  return { found, asked };
}"""


def test_a_stream_that_is_cut_has_no_gap_and_no_repeat(page: Page, desk_page: DeskPage) -> None:
    events = desk_page.last_event(desk_page.run)
    assert events > 40
    answer = page.evaluate(CUT, [f"/runs/{desk_page.run}/events", events])
    assert answer["found"] == list(range(1, events + 1))
    assert len(answer["asked"]) == 4, "cut three times, and gone on each time"
    assert answer["asked"] == sorted(answer["asked"], key=int)


def test_a_hidden_tab_closes_its_stream_and_goes_on_when_it_is_seen(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs", "Runs")
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    hide = """hidden => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }"""
    before = desk_page.service.connections()
    page.evaluate(hide, True)
    expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
    wait_for(lambda: desk_page.service.connections() < before, "the tab's reader is gone")
    run = desk_page.add_run("screen")
    page.evaluate(hide, False)
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    expect(page.get_by_role("link", name=short(run))).to_be_visible()
    desk_page.remove_run(run)


def test_a_restart_of_the_service_is_survived(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs", "Runs")
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    desk = desk_page.service.processes
    desk.end("api")
    expect(page.get_by_role("heading", level=1)).to_contain_text("no connection")
    expect(page.get_by_role("link", name=short(desk_page.run))).to_be_visible()  # what was loaded stays
    run = desk_page.add_run("screen")
    url, _ = start(desk)
    assert url == desk_page.url, "the same port as before"
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    expect(page.get_by_role("link", name=short(run))).to_be_visible()
    desk_page.remove_run(run)


LIST = """async (count) => {
  const { html, render } = { ...(await import('/page/lib/html.js')), ...(await import('preact')) };
  const { VirtualList } = await import('/page/lib/ui.js');
  const { useBounded } = await import('/page/lib/store.js');
  const box = document.createElement('div');
  document.body.append(box);
  let list, push;
  const row = (one) => one;
  const List = () => {
    [list, push] = useBounded(1000);
    return html`<${VirtualList} label="Test" items=${list.items} dropped=${list.dropped} stick row=${row} />`;
  };
  const draw = async () => {
    render(html`<${List} />`, box);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  };
  const at = () => {
    const one = box.querySelector('.virtual');
    return one.scrollHeight - one.scrollTop - one.clientHeight;
  };
  const shown = () => [...box.querySelectorAll('li')].map((one) => one.textContent);
  let next = 0;
  const add = async (many) => { push(Array.from({ length: many }, () => `row ${next++}`)); await draw(); };
  const found = {};
  await draw();
  await add(5);
  for (let step = 0; step < 20; step += 1) await add(count);
  found.sticks = at();
  found.last = shown().at(-1);
  found.elements = box.querySelectorAll('*').length;
  box.querySelector('.virtual').scrollTop -= 5000;
  await draw();
  found.before = shown()[10];
  for (let step = 0; step < 3; step += 1) await add(40);
  found.after = shown()[10];
  found.kept = list.items.length;
  box.querySelector('.virtual').scrollTop = 1e9;
  await draw();
  await add(3);
  found.again = at();
  render(null, box);
  box.remove();
  return found;
}"""


def test_a_long_list_sticks_to_its_end_stays_where_it_is_read_and_does_not_grow(page: Page) -> None:
    found = page.evaluate(LIST, 97)
    assert (found["sticks"], found["last"]) == (0, "row 1944")
    assert found["elements"] < 60
    assert found["before"] == found["after"], "rows that came and went moved the reader's place"
    assert found["kept"] == 1000
    assert found["again"] == 0


def test_the_text_of_a_model_is_shown_as_it_is_written_if_that_is_switched_on(page: Page, desk_page: DeskPage) -> None:
    run = desk_page.add_run("screen")
    with desk_page.service.store.session() as session:
        row = session.get_one(Run, run)
        row.settings = {**(row.settings or {}), "event_deltas": True}
        session.add(row)
    publisher = DeltaPublisher(desk_page.service.processes.environ["DESK_REDIS_URL"])

    def write(text: str) -> None:
        delta = event(EventType.ITEM_DELTA, run, thread_id="thread-1", turn_id="turn-1", item_id="item-1", text=text)
        publisher.publish([delta])

    desk_page.open(page, f"/runs/{run}", short(run))
    shown = page.locator(".spoken .words")
    expect(page.get_by_text("Off: answers are in the threads")).to_be_visible()
    page.get_by_label("show it while it is written").check()
    expect(page.get_by_text("No model says anything right now")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("receiving")
    wait_for(desk_page.service.listens, "the tab's reader waits")
    write("The rally <b>is")
    expect(shown).to_have_text("The rally <b>is")
    write(" broad</b>")
    expect(shown).to_have_text("The rally <b>is broad</b>")
    with desk_page.service.store.session() as session:
        ended = event(EventType.TURN_COMPLETED, run, thread_id="thread-1", turn_id="turn-1", ms=5)
        event_log.append(session, [ended])
    expect(shown).to_have_count(0)
    assert desk_page.last_event(run) == 2, "the text is not stored"
    publisher.close()
    desk_page.remove_run(run)
