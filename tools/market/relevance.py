"""Headlines by what they may say of one share: its own name before lists, news of the company before commentary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from chordesk.models.market import Headline
from chordesk.tools.market.universe import company_words

# The first that a headline's words match is its kind; the weight is beside it. Words, not sentences: a headline is
# outside text, and no more is read out of it than what it is likely to be about.
_KINDS: tuple[tuple[str, int, re.Pattern[str]], ...] = tuple(
    (kind, weight, re.compile(pattern, re.IGNORECASE))
    for kind, weight, pattern in (
        ("market wrap", -3, r"\b(stock market today|dow jones|s&p 500|nasdaq (?:composite|100)|wall street (?:opens|"
         r"closes)|futures (?:rise|fall|slip)|markets? wrap|stocks (?:rise|fall|slip|climb|drop|rally))\b"),
        ("list", -3, r"\b(\d+ (?:[\w-]+ ){0,4}stocks?|stocks? to (?:buy|watch|own|hold)|(?:best|top|cheap)\b.{0,30}"
         r"\bstocks?|dividend (?:stocks?|aristocrats?|kings?|growth|yield)|should you (?:buy|invest)|is it (?:a|"
         r"time to) buy|millionaire|warren buffett|facts to (?:know|consider|note))\b"),
        ("fund commentary", -3, r"\b(fund|funds|etf|etfs|13f|hedge fund|portfolio|commentary|investor letter|"
         r"shareholder letter|trims? (?:its )?(?:stake|position)|adds? to (?:its )?(?:stake|position)|(?:buys|sells|"
         r"acquires|sold|bought) [\d,]+ shares)\b"),
        ("rating", 4, r"\b(downgrad\w*|upgrad\w*|price targets?|initiat\w+ (?:at|coverage|with)|overweight|underweight|"
         r"outperform|underperform|(?:cut|raised?) to (?:buy|sell|hold|neutral)|analysts? (?:cut|raise|lower)\w*)\b"),
        ("results", 4, r"\b(earnings|results|q[1-4]|(?:first|second|third|fourth)[- ]quarter|eps|revenues?|guidance|"
         r"outlook|forecasts?|profits?|sales (?:rise|fall|miss|beat)|profit warning|beats?|miss(?:es)? estimates)\b"),
        ("deal", 4, r"\b(acqui(?:res?|sition|red)|merg(?:er|es|ing)|buyout|takeover|to buy|spin[- ]?offs?|divest\w*|"
         r"stake in|tender offer|goes private|ipo)\b"),
        ("legal", 4, r"\b(lawsuit|sues|sued|probe|investigat\w+|antitrust|settle(?:s|ment)|fined?|fraud|recalls?|"
         r"subpoena\w*|indict\w*|regulators?|ban(?:s|ned)?|breach|hack\w*)\b"),
        ("trouble", 4, r"\b(bankrupt\w*|default|layoffs?|job cuts|strike|halt\w*|delist\w*|shutdown|outage|"
         r"tariffs?)\b"),
        ("management", 3, r"\b(ceo|cfo|chief executive|chairman|resign\w*|steps? down|appoint\w*|names? new)\b"),
        ("business", 2, r"\b(contract|order|launch\w*|approv\w+|fda|patent|partner\w*|expan\w+|plant|invest(?:s|ment)|"
         r"buyback|repurchase|dividend|split)\b"),
    )
)  # fmt: skip
OTHER = "other"
_NAMED = 5  # weight of the share's own name or symbol
_WORDS = re.compile(r"[a-z0-9]+")
_ALIKE = 0.6  # of two headlines' words, from which they are one
_IDLE = frozenset(
    ("a", "after", "amid", "an", "and", "as", "at", "by", "for", "from", "how", "in", "is", "it", "its", "of", "on",
     "or", "says", "the", "to", "why", "with")
)  # fmt: skip


class Ranked(NamedTuple):
    """Headlines by relevance. kinds: of those shown, in their order; repeats: of each, how many more said the same;
    rest: kinds of those left out, with their number."""

    shown: tuple[Headline, ...]
    kinds: tuple[str, ...]
    repeats: tuple[int, ...]
    rest: Counter[str]


def kind_of(headline: str) -> tuple[str, int]:
    return next(((kind, weight) for kind, weight, words in _KINDS if words.search(headline)), (OTHER, 0))


def ranked(headlines: Sequence[Headline], symbol: str, company: str | None, most: int) -> Ranked:
    """Return the headlines that say most of a share, the newest first among equals. company: its name; None where it
    is not known, and then its symbol alone names it."""
    newest = sorted(headlines, key=lambda row: row.published_at, reverse=True)
    kept: list[tuple[frozenset[str], Headline]] = []
    repeats: Counter[int] = Counter()
    for row in newest:
        words = frozenset(_WORDS.findall(row.headline.lower())) - _IDLE
        same = next((at for at, (other, _) in enumerate(kept) if _alike(words, other)), None)
        if same is None:
            kept.append((words, row))
        else:
            repeats[same] += 1
    named = _naming(symbol, company)
    kinds = [kind_of(row.headline) for _, row in kept]
    scores = [
        weight + _NAMED * bool(named.search(row.headline)) for (_, row), (_, weight) in zip(kept, kinds, strict=True)
    ]
    order = sorted(range(len(kept)), key=lambda at: -scores[at])
    return Ranked(
        tuple(kept[at][1] for at in order[:most]),
        tuple(kinds[at][0] for at in order[:most]),
        tuple(repeats[at] for at in order[:most]),
        Counter(kinds[at][0] for at in order[most:]),
    )


def _alike(words: frozenset[str], other: frozenset[str]) -> bool:
    return bool(words) and len(words & other) >= _ALIKE * len(words | other)


def _naming(symbol: str, company: str | None) -> re.Pattern[str]:
    """Return what names a share: its symbol in brackets, after a dollar or an exchange, alone where it is long enough
    to be no word; and the first words of its company's name."""
    tag = re.escape(symbol.upper())
    forms = [rf"[($:]\s?{tag}\b"]
    if len(symbol) >= 3:
        forms.append(rf"\b{tag}\b")
    if words := company_words(company):
        forms.append(rf"(?i:\b{re.escape(words)}(?:'s)?\b)")
    return re.compile("|".join(forms))
