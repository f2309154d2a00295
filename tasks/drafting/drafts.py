"""A new lens: a file made of a person's words and rule, tried before it is kept, and kept by a person alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import orjson

from chordesk.agents.desk_roles import is_own
from chordesk.agents.drafting.drafter import file_text
from chordesk.agents.roles import LENS_TOOLS
from chordesk.models.errors import UsageError
from chordesk.models.files import replacing
from chordesk.models.settings import Settings
from chordesk.models.settings.types import LENS_FOLDER, own_texts
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.lenses import try_out
from chordesk.tools.lenses.files import MOST_WORDS, NAME, NAME_RULE, Lens, read_lens, require_plain
from chordesk.tools.lenses.trials import Trial
from chordesk.tools.market.protocol import RecordedSessions
from chordesk.tools.orders.audit import record

PERSON = "a person"
TRIED = 60  # sessions on which a draft is tried
_LONGEST_NAME = 32


def name_of(words: str) -> str:
    """Return a name from the first words: calm names that rise -> calm-names-that-rise."""
    found = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    cut = found if len(found) <= _LONGEST_NAME else found[:_LONGEST_NAME].rpartition("-")[0]
    return re.sub(r"^[^a-z]+", "", cut) or "lens"


def drafted(words: str, rules: Mapping[str, str]) -> str:
    """Return the text of a file. rules: where, score, high and by, as far as they are given."""
    require_words(words)
    return file_text(words, rules)


def require_words(words: str) -> None:
    if not words.strip():
        raise UsageError("there are no words", remedy="say in a sentence what the lens looks for")
    if len(words) > MOST_WORDS:
        raise UsageError(f"the words have {len(words):,} characters", remedy=f"at most {MOST_WORDS:,} are read")
    require_plain(words, "the words")


def require_place(settings: Settings, name: str | None) -> None:
    """Raise UsageError for a name that is taken or not allowed, and where a setting names other files than the
    home's."""
    if name is not None and NAME.fullmatch(name) is None:
        raise UsageError(f"the lens {name[:40]!r} has a name that is not allowed", remedy=f"a name is {NAME_RULE}")
    if name is not None and not is_own(name):
        raise UsageError(f"there is a lens {name} of the desk or of a package", remedy="name it otherwise: --name NAME")
    if settings.own_lenses:
        remedy = f"write the file where that setting says, or leave it unset for {settings.home / LENS_FOLDER}"
        raise UsageError("DESK_OWN_LENSES names the own lenses", remedy=remedy)


def as_draft(settings: Settings, name: str, text: str) -> tuple[Settings, Lens]:
    """Return settings with which the draft is a lens, and the lens. Raises UsageError for a fault of it, a name that is
    taken, and where a setting names other files than the home's."""
    lens = read_lens(name, text, frozenset(LENS_TOOLS))
    require_place(settings, name)
    texts = {**own_texts("", settings.home), name: text}
    return settings.model_copy(update={"own_lenses": orjson.dumps(texts).decode()}), lens


def tried_lately(desk: Desk, lens: Lens) -> Trial | None:
    """Try a draft on the last sessions up to the market's day; None without a rule, or where too few are on record."""
    market = desk.market
    if lens.rule is None or not isinstance(market, RecordedSessions):
        return None
    today = market.clock.session()
    known = [day for day in market.recorded() if day <= today][-TRIED:]
    return try_out(desk, lens.name, known[0], known[-1], until=today) if len(known) > 1 else None


def place_of(settings: Settings, name: str) -> Path:
    return settings.home / LENS_FOLDER / f"{name}.md"


def keep(desk: Desk, lens: Lens, text: str, by: str, author: str = PERSON) -> Path:
    """Write the file, whole or not at all, with a line in the audit log. by: who keeps it; author: of the text."""
    path = place_of(desk.settings, lens.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with desk.store.session() as session:
        record(session, desk.settings, "lens_accepted", lens=lens.name, version=lens.version, by=by, author=author)
    with replacing(path) as file:
        file.write(text.encode())
    return path
