"""Questions in words, read by rules: what is asked for, and of which symbol, run, order, moment or number.

The first intent that fits wins, so the narrow ones come first. English alone. What fits none is no question of these:
nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from chordesk.models.errors import UsageError

LONGEST = 20_000  # characters of a question
_NUMBERS = {
    word: at
    for at, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
}
_SPAN = re.compile(r"\b(?:last|past)\s+(\w+)\s+(minute|hour|day|week)s?\b")
_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:t\d{2}:\d{2}(?::\d{2})?(?:z|[+-]\d{2}:\d{2})?)?", re.IGNORECASE)
_SHORT_SPAN = re.compile(r"\bsince\s+(\d{1,5}[mhdw])\b")
_ID = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{6,32}(?:-[0-9a-f-]*)?\b")
_WORD = re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9.=^&-]*")
_SETTING = re.compile(r"\b(?:DESK|AUTONOMOUS|TRADER|SCREENER)_[A-Z0-9_]+\b")

# By intent, what its questions have in common; a symbol or an id where it needs one.
_PATTERNS: tuple[tuple[str, str, str], ...] = (
    ("help", r"^\s*(?:help|\?)\W*$|\bwhat (?:can|may) (?:i|you|we) (?:ask|answer|do)\b", ""),
    ("setting", r"\bsettings?\b|\bconfigur|\bwhat is \w+_\w+ set\b", ""),
    ("compare", r"\b(?:compare|difference|differ|versus|vs)\b", "two"),
    ("why", r"\bwhy\b|\bhow come\b|\breasons? (?:for|behind|of)\b|\bwhat (?:led|made)\b", "symbol"),
    ("thesis", r"\bthes[ie]s\b|\bcase (?:for|against)\b|\binvalidat", "symbol"),
    ("plan", r"\bplans?\b|\bstops?\b(?! (?:run|the run|trading))|\btargets?\b|\bexits?\b|\breviews?\b", ""),
    ("weakest", r"\b(?:weakest|worst|poorest|losers?|losing)\b", ""),
    ("strongest", r"\b(?:strongest|best|winners?|winning)\b(?! (?:lens|voice|role|tool))", ""),
    ("scores", r"\bscores?\b|\bbrier\b|\bcalibrat|\btrack record\b|\bhow good\b|\bhit rates?\b", ""),
    ("waiting", r"\bwait(?:s|ing)?\b|\bapprov(?:e|al|als)\b|\bneeds? me\b|\bdecide\b", ""),
    ("cost", r"\bcosts?\b|\btokens?\b|\bspen[dt]\b|\bspending\b|\bbill\b|\bbudgets?\b", ""),
    ("changes",
     r"\bchanged?s?\b|\bhappen(?:ed|s)?\b|\bdid i miss\b|"
     r"\bmissed\b|\bwhat(?:'s| is) new\b|\bnews? since\b", ""),
    ("alerts", r"\balerts?\b|\bwatch ?lists?\b|\btriggers?\b", ""),
    ("schedule", r"\bschedul|\bnext (?:run|screen)\b|\bwhen (?:does|is|will|do) .*(?:run|screen|start)", ""),
    ("fills",
     r"\bfills?\b|\bfilled\b|\btrades?\b(?! again)|"
     r"\b(?:we|i|desk) (?:buy|sell|bought|sold)\b|\bbought\b|\bsold\b", ""),
    ("orders", r"\borders?\b|\bdenied\b|\bdenials?\b|\brejected\b|\brefused\b", ""),
    ("verdict",
     r"\bverdicts?\b|\bratings?\b|\brated\b|"
     r"\bthink(?:s)? (?:of|about)\b|\bview (?:of|on)\b|\bopinion\b", "symbol"),
    ("holdings",
     r"\bholdings?\b|\bpositions?\b|\bportfolio\b|\bhold\b|"
     r"\bheld\b|\bown\b|\bexposure\b|\bhow (?:much|many)\b", ""),
    ("equity", r"\bequity\b|\bcash\b|\baccount\b|\bdrawdown\b|\bprofit\b|\breturns?\b|\bmade or lost\b|\bworth\b", ""),
    ("runs", r"\bruns\b|\bscreens\b", ""),
    ("run", r"\brun\b|\bscreen\b|\bbacktest\b|\bresearch\b", ""),
    ("status",
     r"\bstatus\b|\bhow is\b|\bhow are\b|\bhalted\b|"
     r"\brunning\b|\bworkers?\b|\bhealthy\b|\bok\b|\balive\b", ""),
)  # fmt: skip
_READ = tuple((name, re.compile(pattern, re.IGNORECASE), needs) for name, pattern, needs in _PATTERNS)
INTENTS = tuple(name for name, _, _ in _PATTERNS)
EXAMPLES = (
    "status", "what changed since yesterday", "why was ED bought", "why was CF not bought", "weakest three holdings",
    "holdings", "orders waiting", "denied orders", "trades today", "plan of ED", "thesis of ED", "verdict on ED",
    "equity", "runs", "run 01a226", "compare 01a226 01a225", "cost today", "scores of lens momentum", "schedule",
    "setting DESK_PROTECT", "alerts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. symbols, ids: in their order; since: as `since_of` reads it, None where nothing says it; count:
    how many, None where nothing says it; words: all of them in small letters."""

    text: str
    intent: str
    symbols: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    since: str | None = None
    count: int | None = None
    settings: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()

    def says(self, *words: str) -> bool:
        return not self.words.isdisjoint(words)


def cleaned(text: str) -> str:
    """Return a question as it is read. Raises UsageError for one that is empty or too long."""
    plain = unicodedata.normalize("NFKC", text)
    plain = "".join(" " if unicodedata.category(each) in ("Cc", "Cf") else each for each in plain)
    plain = " ".join(plain.split())
    if not plain:
        raise UsageError("the question is empty", remedy="such as: desk ask why was ED bought")
    if len(text) > LONGEST:
        raise UsageError(f"the question has {len(text):,} characters", remedy=f"ask with at most {LONGEST:,}")
    return plain


def read(text: str, known: Collection[str]) -> Question | None:
    """Return what a cleaned text asks, None where no intent fits. known: symbols that the desk has rows of; a word in
    capitals that is none of them is a symbol too where a question needs one."""
    symbols = tuple(dict.fromkeys(_symbols(text, known)))
    ids = tuple(dict.fromkeys(_ID.findall(text.lower())))
    words = frozenset(word.strip("'").lower() for word in re.findall(r"[\w']+", text))
    found = Question(
        text=text, intent="", symbols=symbols, ids=ids, since=_since(text.lower()), count=_count(text.lower()),
        settings=tuple(_SETTING.findall(text)), words=words,
    )  # fmt: skip
    for intent, pattern, needs in _READ:
        if not pattern.search(text):
            continue
        if (needs == "symbol" and not symbols) or (needs == "two" and len(ids) < 2):
            continue
        return replace(found, intent=intent)
    if found.settings:
        return replace(found, intent="setting")
    if ids and not symbols:
        return replace(found, intent="run")
    bare = len(symbols) == 1 and len(words) <= 2
    return replace(found, intent="symbol") if bare else None


# Words in capitals that people write and no share's symbol; a known symbol counts nevertheless where it is written so.
_NO_SYMBOL = frozenset(
    {
        "A", "AN", "AND", "ANY", "ARE", "AS", "AT", "BE", "BUY", "BY", "CAN", "DID", "DO", "DOES", "FOR", "FROM", "GET",
        "GO", "HAS", "HE", "HOLD", "HOW", "I", "IF", "IN", "IS", "IT", "ITS", "ME", "MY", "NEW", "NO", "NOT", "NOW",
        "OF", "OFF", "ON", "ONE", "OR", "OUR", "OUT", "OWN", "PUT", "SELL", "SHE", "SO", "SINCE", "THE", "TO", "TWO",
        "UP", "US", "USD", "WAS", "WE", "WHAT", "WHEN", "WHO", "WHY", "YOU",
    }
)  # fmt: skip


def _symbols(text: str, known: Collection[str]) -> Iterator[str]:
    shouted = text.upper() == text
    for word in _WORD.findall(text):
        marked, bare = word.startswith("$"), word.rstrip(".,").removeprefix("$")
        upper = bare.upper()
        written = bare == upper and not (shouted and upper in _NO_SYMBOL)
        if upper in known:
            if marked or written or (len(bare) > 2 and upper not in _NO_SYMBOL):
                yield upper
        elif marked or (written and not shouted and upper not in _NO_SYMBOL and not _is_other(bare)):
            yield upper


def _is_other(word: str) -> bool:
    """Return whether a word in capitals is a day, a number, an id or the name of a setting."""
    return (
        bool(re.fullmatch(r"[\d.:-]+[MHDW]?", word) or _SETTING.fullmatch(word))
        or "_" in word
        or not 1 < len(word) <= 20
    )


def _since(text: str) -> str | None:
    if (found := _SHORT_SPAN.search(text)) is not None:
        return found[1]
    if (found := _DAY.search(text)) is not None:
        return found[0].upper()
    if (found := _SPAN.search(text)) is not None:
        count = int(found[1]) if found[1].isascii() and found[1].isdigit() else _NUMBERS.get(found[1])
        return f"{count}{found[2][0]}" if count is not None else None
    if re.search(r"\b(?:last|past|this) week\b", text):
        return "1w"
    if re.search(r"\b(?:last|past) hour\b", text):
        return "1h"
    if re.search(r"\byesterday\b|\blast close\b", text):
        return "close"
    if re.search(r"\btoday\b|\bthis (?:morning|day)\b", text):
        return "today"
    return None


def _count(text: str) -> int | None:
    near = r"(?:weakest|strongest|worst|best|last|newest|top|first)"
    found = re.search(rf"\b{near}\s+(\w+)|\b(\w+)\s+{near}", text)
    for word in (found[1], found[2]) if found is not None else ():
        if word is not None and word.isascii() and word.isdigit() and len(word) < 5:
            return int(word)
        if word in _NUMBERS:
            return _NUMBERS[word]
    return None
