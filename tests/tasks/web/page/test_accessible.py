"""Every view without a violation of axe in both themes, without overlap from 360 to 2,560 pixels, and by the keyboard
alone."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.kit import DeskPage, overflow, violations
from tests.browser.ways import all_ways

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
PARTS = 4  # of the views, so that other tests may run beside them
WIDTHS = (360, 390, 800, 1440, 2560)

# Pairs of texts that lie over each other, as far as what they are in lets them be seen.
OVERLAPS = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('svg, .unseen, .skip, script, option, .virtual, dialog')
      || !parent.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const { left, top, right, bottom } of range.getClientRects()) {
      const seen = { left, top, right, bottom, parent, text: node.data.trim().slice(0, 40) };
      for (let one = parent; one && one !== document.body; one = one.parentElement) {
        if (getComputedStyle(one).overflow === 'visible') continue;
        const box = one.getBoundingClientRect();
        for (const side of ['left', 'top']) seen[side] = Math.max(seen[side], box[side]);
        for (const side of ['right', 'bottom']) seen[side] = Math.min(seen[side], box[side]);
      }
      if (seen.right - seen.left > 2 && seen.bottom - seen.top > 2) texts.push(seen);
    }
  }
  texts.sort((a, b) => a.top - b.top);
  return texts.flatMap((a, n) => {
    const found = [];
    for (let m = n + 1; m < texts.length && texts[m].top < a.bottom - 5; m += 1) {
      const b = texts[m];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 3 && down > 5 && !a.parent.contains(b.parent) && !b.parent.contains(a.parent)) {
        found.push(`${a.text} over ${b.text}`);
      }
    }
    return found;
  });
}"""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_view_has_a_violation_or_is_wider_than_the_window(page: Page, desk_page: DeskPage, part: int) -> None:
    for way in all_ways(desk_page)[part::PARTS]:
        # By way of a view of its own, so that nothing of the one before is taken for this one.
        desk_page.open(page, "/nowhere", "No such view")
        page.goto(f"{desk_page.url}/#{way}")
        if way != "/nowhere":
            expect(page.get_by_role("heading", level=1, name="No such view")).to_have_count(0)
        expect(page.locator("main h1").first).to_be_visible()
        expect(page.locator("main .loading")).to_have_count(0)
        expect(page.locator("main .problem")).to_have_count(0)
        for theme in THEMES:
            assert in_theme(page, theme) == [], f"{way} in {theme}"
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) <= 0, f"{way} at {width} px"
            assert page.evaluate(OVERLAPS) == [], f"{way} at {width} px"
        page.set_viewport_size({"width": 1280, "height": 900})


def test_the_login_has_no_violation(page: Page) -> None:
    page.get_by_text("Ann", exact=True).click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("dialog").get_by_role("button", name="Log out").click()
    expect(page.get_by_role("form", name="Log in")).to_be_visible()
    for theme in THEMES:
        assert in_theme(page, theme) == [], f"the login in {theme}"


def in_theme(page: Page, theme: Theme) -> list[str]:
    """Return the violations of the view as a system of this theme shows it. Themes differ in their colours alone."""
    page.emulate_media(color_scheme=theme)
    return violations(page, None if theme == "light" else "color-contrast")


def test_the_keyboard_leads_everywhere(page: Page, desk_page: DeskPage) -> None:
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="The keys")
    expect(keys).to_contain_text("Start a run" if "/runs" in page.url else "Load again")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    expect(page.get_by_role("group", name="Runs").get_by_role("link").first).to_be_visible()
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.closest('[data-row]') !== null")
    assert focused, "the first row has the focus"
    page.keyboard.press("/")
    expect(page.get_by_label("Kind")).to_be_focused()
    page.keyboard.press("g")  # in a field, a key is a letter
    page.keyboard.press("d")
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("s")
    expect(page.get_by_role("dialog", name="Start a run")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


# Sums what moves without a person's doing; what waits for the part above it does so for as long as that takes.
SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => list.getEntries().filter((one) => !one.hadRecentInput).forEach((one) =>
    window.shifts.push(one.value))).observe({ type: 'layout-shift', buffered: true });
  const hold = () => {
    document.getAnimations().filter((one) => one.animationName === 'unveiled').forEach((one) => one.pause());
    requestAnimationFrame(hold);
  };
  hold();
}"""
MOST_SHIFT = 0.05


def test_nothing_in_sight_moves_while_a_view_loads(page: Page, desk_page: DeskPage) -> None:
    page.add_init_script(f"({SHIFTS})()")
    for way in ("/", "/orders", f"/runs/{desk_page.run}"):
        page.goto("about:blank")
        page.goto(f"{desk_page.url}/#{way}")
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("main .loading")).to_have_count(0)
        moved = page.evaluate("() => new Promise((done) => setTimeout(() => done(window.shifts), 300))")
        assert sum(moved) <= MOST_SHIFT, (way, moved)
