"""When an alert fires: the rules of one look after another, against a slow script that reads the whole past anew."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.tools.alerts.crossing import Crossing, Rearm, Terms, Tick, news, open_minutes, step
from chordesk.tools.market.clock import exchange_hours
from tests.examples import examples

HOURS = exchange_hours("XNYS")
SESSIONS = HOURS.between(dt.date(2026, 11, 23), dt.date(2026, 12, 4))  # Thanksgiving, and a half day after it


def fired(ticks: Sequence[Tick], terms: Terms) -> list[int]:
    state, found = Crossing(), []
    for place, tick in enumerate(ticks):
        state, fires = step(state, tick, terms)
        found += [place] if fires else []
    return found


def slowly(ticks: Sequence[Tick], terms: Terms) -> list[int]:
    """Where an alert fires, by what words say of it: for each look the whole past is read again."""
    found: list[int] = []
    farthest = 0.0  # at which it was armed before the last firing
    for now, tick in enumerate(ticks):
        if tick.beyond is None or tick.beyond < 0:
            continue
        last = found[-1] if found else None
        begun = 0 if last is None else last + 1
        if last is not None and terms.rearm == "once":
            break
        if last is not None and terms.rearm == "cooldown":
            wait = dt.timedelta(minutes=terms.cooldown_minutes)
            armed = next(
                (
                    at
                    for at in range(begun, now + 1)
                    if ticks[at].beyond is not None and ticks[at].at - ticks[last].at >= wait
                ),
                None,
            )
        else:
            armed = next(
                (
                    at
                    for at in range(begun, now + 1)
                    if (at < now and arms(ticks, at, last, farthest)) or (terms.anew and begins(ticks, at))
                ),
                None,
            )
        if armed is None:
            continue
        held = now
        while held > armed and ticks[held - 1].beyond is not None and ticks[held - 1].beyond >= 0:
            held -= 1
        if open_minutes(HOURS, ticks[held].at, tick.at) >= terms.for_minutes:
            begun = max((at for at in range(armed, now + 1) if terms.anew and begins(ticks, at)), default=None)
            asked = armed if begun is None or (last is not None and terms.rearm == "cooldown") else begun
            whole = [1.0] if asked == begun else []
            outside = [-one.beyond for one in ticks[asked:now] if one.beyond is not None and one.beyond < 0]
            farthest = max([*whole, *outside], default=0.0)
            found.append(now)
    return found


def begins(ticks: Sequence[Tick], at: int) -> bool:
    """A later session than the first begins."""
    return at > 0 and ticks[at].day > ticks[at - 1].day


def arms(ticks: Sequence[Tick], at: int, last: int | None, farthest: float) -> bool:
    outside = ticks[at].beyond
    if outside is None or outside >= 0:
        return False
    return last is None or ticks[at].day > ticks[last].day or -outside >= round(max(farthest, 0.01) / 10, 9)


@st.composite
def courses(draw: st.DrawFn) -> list[Tick]:
    """Looks over sessions with gaps: some are missed, some see nothing."""
    ticks = []
    for day in SESSIONS[: draw(st.integers(1, len(SESSIONS)))]:
        opens, closes = HOURS.open_of(day), HOURS.close_of(day)
        most = int((closes - opens).total_seconds() // 60)
        minutes = draw(st.lists(st.integers(0, most), max_size=8, unique=True).map(sorted))
        for minute in minutes:
            beyond = draw(st.none() | st.sampled_from([-0.2, -0.05, -0.011, -0.0009, -0.0004, 0.0, 0.01, 0.3]))
            ticks.append(Tick((opens + dt.timedelta(minutes=minute)).astimezone(dt.UTC), day, beyond))
    return ticks


@settings(max_examples=examples(200), deadline=None)
@given(
    courses(), st.sampled_from([0, 1, 30, 390]), st.sampled_from(["outside", "cooldown", "once"]),
    st.sampled_from([1, 60, 3000]), st.booleans(),
)  # fmt: skip
def test_an_alert_fires_where_a_slow_script_says(
    ticks: list[Tick], lasts: int, rearm: Rearm, cooldown: int, anew: bool
) -> None:
    terms = Terms(lasts, rearm, cooldown, HOURS, anew)
    assert fired(ticks, terms) == slowly(ticks, terms)


def test_what_is_said_of_it_in_words() -> None:
    """The first look arms and never fires; a touched level counts; trembling does not; a night is no time."""
    day, terms = SESSIONS[0], Terms(0, "outside", 60, HOURS)

    def course(*beyonds: float | None) -> list[Tick]:
        opens = HOURS.open_of(day)
        return [Tick(opens + dt.timedelta(minutes=minute), day, one) for minute, one in enumerate(beyonds)]

    assert fired(course(0.1, 0.2, 0.1), terms) == [], "it was beyond when it was written"
    assert fired(course(0.1, -0.1, 0.0), terms) == [2]
    assert fired(course(-0.1, 0.0, -0.001, 0.0, -0.01, 0.0), terms) == [1, 5], "a hundredth is a tenth of the way"
    assert fired(course(None, -0.1, None, 0.1), terms) == [3]
    close, opens = HOURS.close_of(day), HOURS.open_of(SESSIONS[1])
    lasting = Terms(30, "outside", 60, HOURS)
    held = [(close - dt.timedelta(minutes=20), -0.1), (close - dt.timedelta(minutes=10), 0.1)]
    held += [(opens + dt.timedelta(minutes=19), 0.1), (opens + dt.timedelta(minutes=20), 0.1)]
    assert fired([Tick(at, at.date(), one) for at, one in held], lasting) == [3]


def test_the_first_look_at_news_only_remembers_them() -> None:
    seen, fresh = news(None, ["b", "a"])
    assert (seen, fresh) == (["b", "a"], [])
    seen, fresh = news(seen, ["c", "b"])
    assert (seen, fresh) == (["c", "b", "a"], ["c"])
    assert news(seen, ["a"])[1] == [], "what was gone and comes back is not new"
