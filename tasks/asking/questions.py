"""Questions in words, read by rules: what is asked for, and of which symbol, run, order, moment or number.

The first intent that fits wins, so the narrow ones come first. English alone. What fits none is no question of these,
and neither is one with a word that changes what is asked and that no rule reads, such as "except" or "will": an answer
to another question is worse than none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from chordesk.models.errors import UsageError
from chordesk.tasks.asking.moments import NUMBERS, UNREAD, span_of
from chordesk.tasks.asking.plain_words import CAPITALIZED, COMMON, NO_SYMBOL, OF_INTENT

LONGEST = 20_000  # characters of a question
_ID = re.compile(
    r"\b(?=[0-9a-f-]*\d)[0-9a-f]{6,32}(?:-[0-9a-f-]*)?\b|"
    r"(?:(?<=\border )|(?<=\brun ))[a-f]{6,32}\b"  # some have no digit
)
_WORD = re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9.=^&-]*")
_SETTING = re.compile(r"\b(?:DESK|AUTONOMOUS|TRADER|SCREENER)_[A-Z0-9_]+\b")
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|ok|please|just|so|and|now|(?:can|could|would|will) you|can i|may i|i (?:want|would like|need)"
    r" to (?:know|see)|i'd like to (?:know|see)|tell me|show(?: me)?|give me|list(?: me)?|let me (?:know|see)|"
    r"(?:do you|you) know|see)\b[,:]?\s*)+"
)
# An order to do something: questions are answered, and nothing is done.
_ACT = re.compile(
    r"(?:go ahead and |go |let's |lets )*(?:buy|sell|short|approve|deny|halt|resume|cancel|flatten|arm|disarm|"
    r"liquidate|"
    r"close|start|stop|set|add|remove|delete|change|raise|lower|submit|place|execute|confirm|mute|pair|revoke|run|"
    r"screen|research|analy[sz]e|ignore|forget|disregard|act|do it)\b"
    r"(?!\s*(?:orders?|fills?|trades?|of|on|for|loss|levels?)\b|\s*\??$|\s+[0-9a-f-]{6,36}\b)"
)
_ACT_ALONE = re.compile(r"(?:buy|sell|approve|deny|halt|resume|cancel|flatten|stop|confirm|start|close|arm|disarm)\W*$")
# Words that change what is asked, and that no rule reads.
_OTHERWISE = re.compile(
    r"\b(?:except|excluding|excluded|exclude|exclusive|others?|else|rest|besides?|(?:apart|aside) from|but|"
    r"minus|"
    r"instead|rather|barring|sans|bar|save|in addition|and not|remaining(?! (?:budget|tokens?)\b)|"
    r"leaving out|omit\w*|ignoring|skipping|outside|non|ex|"
    r"without(?! (?:an? |any |its |their |the )?(?:stops?|plans?|targets?|protection)\b)|"
    r"sort(?:ed)?|rank(?:ed)?|grouped|group by|because|due to|owing to|"
    r"by (?:gain|loss|profit|size|value|worth|symbol|date|price|sector|weight)|"
    r"if|unless|should|would|could|shall|might|"
    r"(?<!when )will|going to|(?:more|less|fewer|greater|bigger|larger|higher|lower|better|worse|longer) than|"
    r"at (?:least|most)|median|sharpe|sortino|volatilit\w+|correlat\w+|beta|alpha|sectors?|industr\w+|forecast for|"
    r"predict\w*|price of|price target|quotes?|buying power|margin|leverage|dividends?|taxe?s?|interest|"
    r"average(?! (?:cost|price|entry))|mean|percentile|how (?:often|many times)|tech|energy|utilities|banks?|"
    r"(?:per|each|every) (?:symbol|trade|order|role|position|run|screen|stock|share|lens|model|fill))\b|w/o\b|"
    r"\b(?:above|below|over|under|exceed\w*|within)\s+[$]?\d|[<>]\s*[$]?\d"
)

_MADE = (
    r"^(?!.*\b(?:trades?|orders?|runs?|screens?|purchases?|sales?|decisions?)\b)"
    r".*\b(?:we|i|desk|it) (?:make|made|earn|earned)\b"
)
_NOT_OF_HOLDINGS = r"(?!.*\b(?:days?|weeks?|months?|years?|trades?|orders?|runs?|screens?|models?|providers?)\b)"

# Which of several: what an intent reads of it, and what none does.
_RANKED = re.compile(
    r"\b(?:biggest|largest|smallest|heaviest|lightest|highest|lowest|most|least|fewest|cheapest|longest|shortest|oldest|"
    r"newest|latest|earliest|first|second|third|previous|top|max|maximum|min|minimum|deepest|best|worst|strongest|"
    r"weakest|main|tiniest)\b"
)
_NO_RANK, _NEWEST = re.compile(r"(?!)"), re.compile(r"\b(?:newest|latest)\b")
_RANKS = {
    **dict.fromkeys(("run", "runs", "orders", "fills", "verdict", "cost", "compare", "why", "thesis"), _NEWEST),
    "weakest": _RANKED, "strongest": _RANKED, "scores": re.compile(r"\b(?:best|worst|strongest|weakest)\b"),
    "holdings": re.compile(r"\b(?:biggest|largest|smallest|heaviest|lightest|tiniest|top|main)\b"),
}  # fmt: skip
_RUN = r"\b(?:runs?|screens?|backtests?|research|episodes?)\b"
# Words that make another question of one that an intent would fit.
_NOT_OF = {
    "fills": rf"\b(?:won|wins?|winning|lost|losing|profitable|money|made the)\b|{_RUN}",
    "orders": rf"\b(?:halt(?:ed)?|cooldown|limits?)\b|\borders?\s+#?\d{{1,5}}\b|{_RUN}",
    "cost": r"\b(?:cash|stocks?|shares?|buys?|buying|bought|purchases?|trades?|trading|positions?|holdings?|"
    r"trader|screener|crypto|coins?|bonds?|options|etfs?|securities|judge|analysts?|voices?|lens(?:es)?)\b",
    "verdict": r"\b(?:holdings?|positions?|held|own(?:ed)?|portfolio|bought|sold|traded|ordered)\b|"
    r"(?<!rated )(?<!were )(?<!was )(?<!are )(?<!is )(?<!many )"
    r"(?<!the )(?<!all )(?<!any )(?<!with )\bhold\b(?! (?:verdict|rating))|"
    r"\b(?:sell|neutral|strong|avoid|overweight|underweight)\b|\b(?:our|my) (?:stocks?|shares?|names?|symbols?)\b",
    "equity": r"\b(?:un)?reali[sz]ed\b",
    # What there is, not what fired: the feature that has alerts answers that.
    "alerts": r"\bwatch[ -]?lists?\b|\b(?:set|defined|enabled|active|have)\b|"
    r"\b(?:my|our|all|every|any) alerts?\b(?!.*\b(?:fired?|since|today|yesterday|week|last)\b)",
    "status": r"\bhow (?:long|many)\b",
}

_NEGATION = re.compile(r"\b(?:not|never|nothing|none|\w+n't)\b")
# What is read of a negation: the state of an order, and that it is asked whether there is any.
_NEGATED = re.compile(
    r"\b(?:not|never|\w+n't)\s+(?:yet\s+|been\s+|get\s+|got\s+|be\s+)*(?:filled?|denied|refused|blocked|rejected|"
    r"open|working|submitted|cancell?ed|expired|previewed|approved|failed|executed|traded)\b"
)
_NO_NEGATION = frozenset(
    {
        "holdings",
        "fills",
        "verdict",
        "gain",
        "equity",
        "weakest",
        "strongest",
        "cost",
        "fees",
        "orders",
        "runs",
        "thesis",
    }
)

# By intent, what its questions have in common; what it needs: a symbol, a symbol or an id, two runs, or none of them.
_PATTERNS: tuple[tuple[str, str, str], ...] = (
    ("help", r"^\s*(?:help|\?)\W*$|\bwhat (?:can|may) (?:i|you|we) (?:ask|answer|do)\b", ""),
    ("setting", r"\bsettings?\b|\bconfigur|\bwhat is \w+_\w+ set\b", ""),
    ("compare", r"\b(?:compare|compared|comparison|difference|differ|differs|versus|vs)\b", "two"),
    ("why", r"\bwhy\b|\bhow come\b|\breasons? (?:for|behind|of)\b|\bwhat (?:led|made)\b", "symbol"),
    ("status", r"\b(?:why|how come)\b.*\bhalt|\bhalted\b|\bis trading (?:on|off|live|paused|stopped)\b", ""),
    ("run", r"\b(?:why|how come)\b.*\b(?:run|screen|backtest|research)\b(?!.*\b(?:bought|sold|denied|orders?)\b)", ""),
    ("orders", r"\border\s+[0-9a-f-]{6,}", "id"),
    ("thesis", r"\bthes[ie]s\b|\bcase (?:for|against)\b|\binvalidat", "symbol"),
    ("fees", r"\bcommissions?\b|\bfees?\b|\bbroker(?:age)? costs?\b", ""),
    ("plan",
     r"\bplans?\b|\bstops?\b(?! (?:run|the run|trading))|\bstop[ -]loss(?:es)?\b|\bunprotected\b|\btargets?\b|"
     r"\bexits?\b(?! (?:ed|code))|\breviews?\b", ""),
    ("scores",
     r"\bscores?\b|\bbrier\b|\bcalibrat|\btrack record\b|\bhow good\b|\bhit rates?\b|"
     r"\b(?:best|worst|strongest|weakest) (?:lens|lenses|voices?|roles?|tools?)\b|"
     r"\b(?:lens|lenses|voices?|roles?|tools?) (?:is|are|was) (?:the )?(?:best|worst|strongest|weakest)\b", ""),
    ("weakest",
     rf"^{_NOT_OF_HOLDINGS}.*(?:\b(?:weakest|worst|poorest|losers?|losing|underwater|under water|in the red)\b|"
     r"\b(?:biggest|largest|top) loss(?:es)?\b)", ""),
    ("strongest",
     rf"^{_NOT_OF_HOLDINGS}.*(?:\b(?:strongest|best|winners?|winning|gainers?|in the (?:green|black))\b|"
     r"\b(?:biggest|largest|top) (?:gains?|profits?)\b)", ""),
    ("waiting", r"\bwait(?:s|ing)?\b|\bapprovals?\b|\bto approve\b|\bneeds? me\b|\bdecide\b|\bpending\b", ""),
    ("gain", r"\baverage (?:cost|price|entry)\b|\bcost basis\b|\bpaid? for\b|\bpay for\b|\bentry price\b", "symbol"),
    ("gain",
     r"^(?!.*\b(?:tokens?|runs?|screens?|research|analys[ei]s|models?|backtests?|budget)\b).*\b(?:costs?|spen[dt])\b",
     "symbol"),
    ("cost", r"\bcosts?\b|\btokens?\b|\bspen[dt]\b|\bspending\b|\bbill\b|\bbudgets?\b", ""),
    ("changes",
     r"\bchanged?s?\b|\bhappen(?:ed|s)?\b|\bdid i miss\b|"
     r"\bmissed\b|\bwhat(?:'s| is) new\b|\banything new\b|\bwhat did (?:the desk|it|you|we) do\b", ""),
    ("alerts", r"\balerts?\b|\bwatch ?lists?\b|\btriggers?\b", ""),
    ("schedule", r"\bschedul|\bnext (?:run|screen)\b|\bwhen (?:does|is|will|do) .*(?:run|screen|start)", ""),
    ("gain",
     r"\bgain(?:s|ed)?\b|\blos[et]\b|\bloss(?:es)?\b|\bprofit(?:s|able)?\b|\bp ?& ?l\b|\bpnl\b|"
     rf"{_MADE}|\bmade or lost\b|\breturns?\b|\bperform(?:ed|ance|ing)?\b|"
     r"\bhow (?:is|are|did) .*\bdo(?:ing)?\b", "symbol"),
    ("equity",
     r"\bequity\b|\bdrawdown\b|\bprofit(?:s|able)?\b|\breturns?\b|\bp ?& ?l\b|\bpnl\b|\bgain(?:s|ed)?\b|\blos[et]\b|"
     rf"\bloss(?:es)?\b|{_MADE}|\bperform(?:ed|ance|ing)?\b|"
     r"\bwe (?:up|down)\b|\bhigh[ -]water\b|\bhow (?:are we doing|did (?:we|the desk|it) do)\b", ""),
    ("runs", r"\bruns\b|\bscreens\b|\bbacktests\b|\bwhat ran\b|\bhow many (?:runs|screens|backtests|episodes)\b", ""),
    ("orders", r"\borders?\b|\bdenied\b|\bdenials?\b|\brejected\b|\brefused\b|\bunfilled\b|\bcancell?ed\b", ""),
    ("fills",
     r"\bfills?\b|\bfilled\b|\btrades?\b(?! again)|\btraded\b|\bpurchases?\b|\bsales?\b|"
     r"\b(?:we|i|desk) (?:buy|sell|bought|sold)\b|\bbought\b|\bsold\b", ""),
    ("verdict",
     r"\bverdicts?\b|\bratings?\b|\brated\b|\bthink(?:s)? (?:of|about)\b|\bview (?:of|on)\b|\bopinion\b|"
     r"\brecommend\w*\b", ""),
    ("holdings",
     r"\bholdings?\b|\bpositions?\b|\bportfolio\b|\bhold\b|\bheld\b|\bown\b|\bexposure\b|\bcash\b|\baccount\b|"
     r"\bworth\b|\bhave (?:any|got)\b", ""),
    ("holdings", r"\bhow (?:much|many)\b|\bhave\b", "symbol"),
    ("run", r"\brun\b|\bscreen\b|\bbacktest\b|\bresearch\b", ""),
    ("status",
     r"\bstatus\b|\bhow is (?:the desk|it|everything|trading)\b|\bhow are (?:things|you)\b|"
     r"\brunning\b|\bworkers?\b|\bhealthy\b|\bok\b|\balive\b|\bstuck\b", ""),
)  # fmt: skip
_READ = tuple((name, re.compile(pattern, re.IGNORECASE), needs) for name, pattern, needs in _PATTERNS)
INTENTS = tuple(dict.fromkeys(name for name, _, _ in _PATTERNS))
EXAMPLES = (
    "status", "what changed since yesterday", "why was ED bought", "why was CF not bought", "weakest three holdings",
    "holdings", "orders waiting", "denied orders", "trades today", "plan of ED", "thesis of ED", "verdict on ED",
    "profit of ED", "fees this week", "equity", "runs", "run 01a226", "compare 01a226 01a225", "cost today",
    "scores of lens momentum", "schedule", "setting DESK_PROTECT", "alerts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. symbols, ids: in their order; since, until: as `moments` has them, None where nothing says it;
    count: how many, None where nothing says it; words: all of them in small letters. unread: what kept it from being
    read, and then there is no intent."""

    text: str
    intent: str
    symbols: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    count: int | None = None
    settings: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    unread: str = ""

    def says(self, *words: str) -> bool:
        return not self.words.isdisjoint(words)


def cleaned(text: str) -> str:
    """Return a question as it is read. Raises UsageError for one that is empty or too long."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
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
    span = span_of(_POLITE.sub("", text.lower()))
    symbols = tuple(dict.fromkeys(_symbols(text, known)))
    ids = tuple(dict.fromkeys(_ID.findall(text.lower())))
    words = frozenset(word.strip("'").lower() for word in re.findall(r"[\w']+", text))
    found = Question(
        text=text, intent="", symbols=symbols, ids=ids, since=span.since, until=span.until, count=_count(text.lower()),
        settings=tuple(_SETTING.findall(text)), words=words,
    )  # fmt: skip
    asked = span.rest.strip()
    for intent, pattern, needs in _READ:
        if not pattern.search(asked) or not _has(found, needs, asked):
            continue
        if intent in _OF_WHAT and re.match(r"why\b|how come\b", asked):
            break
        if (unread := _unread(intent, asked) or _of_symbols(intent, asked, symbols)) is not None:
            return replace(found, unread=unread)
        if intent in _OF_NOW and (span.since not in (None, "today") or span.until is not None):
            return replace(found, unread="the moment: this can be answered as of now alone")
        if not symbols and intent not in _WITHOUT_NAMES and (name := _name(text)) is not None:
            return replace(found, unread=f"{name!r}: write its symbol")
        if intent not in _WITHOUT_SYMBOLS and (small := _small_name(text, known)) is not None:
            return replace(found, unread=f"{small!r}: write a symbol in capitals")
        return replace(found, intent=intent)
    if re.match(r"why\b|how come\b", asked):
        return replace(found, unread="which symbol or order: name one, in capitals")
    if found.settings:
        return replace(found, intent="setting")
    if ids and not symbols:
        return replace(found, intent="run")
    bare = len(symbols) == 1 and words <= {symbols[0].lower(), *symbols[0].lower().split("."), *_ABOUT}
    if bare and (before := _FOLLOWING.match(text)) is not None:
        return replace(found, unread=f"{before[0]!r}: ask the whole question, as rows know none before it")
    return replace(found, intent="symbol") if bare else None


_FOLLOWING = re.compile(r"(?:and|or|also|then|(?:and )?(?:what|how) about)\b", re.IGNORECASE)
_ABOUT = frozenset({"about", "and", "what", "on", "s", "please", "tell", "me", "show"})
_OF_NOW = frozenset({"status", "holdings", "weakest", "strongest", "plan", "thesis", "waiting", "scores", "setting"})
_OF_WHAT = frozenset({"fills", "orders", "holdings", "verdict", "weakest", "strongest", "equity"})  # no answers to why
_WITHOUT_NAMES = frozenset(
    {"help", "setting", "scores", "status", "schedule", "alerts", "compare", "run", "runs", "cost"}
)

_WITHOUT_SYMBOLS = frozenset({"help", "setting", "scores", "status", "schedule", "alerts", "compare", "changes"})


def _has(found: Question, needs: str, asked: str) -> bool:
    if needs == "symbol":
        return bool(found.symbols or (found.ids and re.search(r"\border\b", asked)))
    if needs == "id":
        return bool(found.ids)
    if needs == "two":
        return len(found.ids) >= 2 or bool(
            re.search(r"\b(?:last|newest|latest) two\b|\btwo (?:last|newest|latest)\b", asked)
        )
    return True


def _unread(intent: str, asked: str) -> str | None:
    """Return the word of a question that changes what is asked and that no rule reads."""
    if intent in ("help", "setting"):
        return None
    if _ACT.match(asked) or _ACT_ALONE.match(asked):
        return "nothing is done by a question"
    named = r"\bnext (?:run|screen)\b" + (r"|\bbetween\b" if intent == "compare" else "")
    moment = UNREAD.search(re.sub(named, " ", asked))
    if moment is not None:
        return f"the moment {moment[0].strip()!r}: write since 6h, today, yesterday, a weekday or a day"
    other = _OTHERWISE.search(asked) or _RANKED.search(_RANKS.get(intent, _NO_RANK).sub(" ", asked))
    if other is None and intent in _NOT_OF:
        other = re.search(_NOT_OF[intent], asked)
    return f"the words {other[0].strip()!r}" if other is not None else None


_ACCOUNT = re.compile(r"\baccount (?!(?:of|in|on|is|was|up|down)\b)[a-z][\w:.-]*|\b(?!of\b)[\w:.-]+ account\b")


def _of_symbols(intent: str, asked: str, symbols: tuple[str, ...]) -> str | None:
    """Return the words that leave a symbol out, or ask of it what the intent does not tell."""
    for one in symbols:
        left_out = re.search(
            rf"(?:\b(?:not|never|no)\s+(?:in |of |for |on )?|!)\$?{re.escape(one.lower())}(?!\w)", asked
        )
        if left_out is not None:
            return f"the words {left_out[0]!r}"
    if intent in _NO_NEGATION:
        negation = _NEGATION.search(_NEGATED.sub(" ", asked) if intent == "orders" else asked)
        if negation is not None:
            return f"the word {negation[0]!r}"
    if (read_words := OF_INTENT.get(intent)) is None:
        return None
    names = {part for one in symbols for part in re.findall(r"\w+", one.lower())}
    rest = re.findall(r"[^\W\d]\w*", _ACCOUNT.sub(" ", _ID.sub(" ", asked)))
    strange = next((one for one in rest if one not in read_words and one not in names and one not in NUMBERS), None)
    return f"the word {strange!r}" if strange is not None else None


_AFTER = (
    r"(?:hold|holding|own|have|of|on|in|for|buy|sell|bought|sold|about|is|was|were|with|from|did|not|denied|any|more)"
)
_SMALL_NAME = re.compile(
    rf"\b{_AFTER}\s+([A-Za-z]{{1,5}}(?:[.-][A-Za-z]{{1,3}})?)(?=\s+(?:{_AFTER}|shares?|today)|\W*$)"
)


def _small_name(text: str, known: Collection[str]) -> str | None:
    """Return a word in small letters that stands where a symbol would: a symbol of no row, or any word at all."""
    for found in _SMALL_NAME.finditer(re.sub(r"(?<=\w)'\w+", " ", text)):
        word, upper = found[1], found[1].upper()
        plain = word in COMMON or upper in NO_SYMBOL or upper in known or _is_other(upper)
        if word.islower() and not plain:
            return word
    return None


def _name(text: str) -> str | None:
    """Return a word that stands where a symbol would and is none that the desk knows: a company's name, perhaps."""
    words: list[str] = re.findall(r"(?<=\s)[A-Z][a-z]{2,}\b", text)
    return next((word for word in words if word.lower() not in COMMON | CAPITALIZED), None)


def _symbols(text: str, known: Collection[str]) -> Iterator[str]:
    text = re.sub(r"(?<=\w)'\w+", " ", text)  # DIDN'T, it's
    shouted, listed = text.upper() == text, re.compile(r"\s*(?:,|and|or|&)\s*(?:and\s+)?", re.IGNORECASE)
    end = -1  # of the symbol before
    for word_found in _WORD.finditer(text):
        word = word_found[0]
        follows = end >= 0 and listed.fullmatch(text[end : word_found.start()]) is not None
        marked, bare = word.startswith("$"), word.rstrip(".,").removeprefix("$")
        upper = bare.upper()
        written = bare == upper and not (shouted and upper in NO_SYMBOL)
        if upper in known:
            plain = len(bare) > 1 and upper not in NO_SYMBOL and bare.lower() not in COMMON
            hour = upper in ("AM", "PM") and re.search(r"\d\s?$", text[: word_found.start()]) is not None
            if (marked or written or plain or follows) and not hour:
                yield upper
                end = word_found.end()
        elif marked or (written and not shouted and upper not in NO_SYMBOL and not _is_other(bare)):
            yield upper
            end = word_found.end()


def _is_other(word: str) -> bool:
    """Return whether a word in capitals is a day, a number, an id or the name of a setting."""
    return (
        bool(re.fullmatch(r"[\d.:-]+[MHDW]?|\d{4}-.*", word) or _SETTING.fullmatch(word))
        or "_" in word
        or not 1 < len(word) <= 20
        or bool(_ID.fullmatch(word.lower()))
    )


def _count(text: str) -> int | None:
    near = r"(?:weakest|strongest|worst|best|last|newest|latest|top|first|biggest|largest|smallest)"
    of_time = r"(?!\s+(?:minute|min|hour|day|week|month|year)s?\b)"
    found = re.search(rf"\b{near}\s+(\w+){of_time}|\b(\w+)\s+{near}", text)
    for word in (found[1], found[2]) if found is not None else ():
        if word is not None and word.isascii() and word.isdigit() and len(word) < 5:
            return int(word)
        if word in NUMBERS:
            return NUMBERS[word]
    return None
