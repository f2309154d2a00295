"""Import of data: a sample by its name or by its package files, or the user's own CSV, JSON lines and Parquet files."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import io
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import orjson

from chordesk.models.errors import UsageError
from chordesk.models.files import expanded, replacing
from chordesk.models.market import contract_of
from chordesk.models.outside import MOST_BYTES, Oversized, held
from chordesk.models.text import NEW_YORK, csv_cell
from chordesk.tools.market.files.bars import UNIVERSE_COLUMNS, class_spellings
from chordesk.tools.market.files.chains import CHAIN_COLUMNS as CHAINS
from chordesk.tools.market.files.data_folder import ABOUT, SET_ASIDE, check_folder
from chordesk.tools.market.files.news_and_earnings import HEADLINE_COLUMNS as HEADLINES
from chordesk.tools.market.files.news_and_earnings import STATEMENT_COLUMNS as STATEMENTS
from chordesk.tools.market.files.tables import CSV, JSON_LINES, FileProblem, Problems, columns_in, rows_of
from chordesk.tools.market.prices import moves_like_splits
from chordesk.tools.samples import pystock
from chordesk.tools.samples.own_files import COLUMNS as OWN_BARS
from chordesk.tools.samples.own_files import (
    JSON,
    NESTED,
    TABBED,
    TEXT,
    WORKBOOKS,
    Bar,
    Given,
    SetAside,
    bars_of,
    found_in,
    gathered,
    is_read,
    table_of,
)
from chordesk.tools.samples.package_files import (
    MSFT_CHAIN,
    NASDAQ_NEWS,
    NEWS_2020,
    SAMPLES,
    PackageFile,
    Sample,
    digest_of,
    fetch,
    member,
    members,
    plain_pickle,
    require_hash,
)
from chordesk.tools.samples.preview import Preview, close_of, figure_of, preview_of


class Table(NamedTuple):
    """A CSV file of a data folder, by its name within it."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def content(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([csv_cell(cell) for cell in row] for row in self.rows)
        return text.getvalue().encode()


def write_files(folder: Path, files: Iterable[tuple[str, bytes]], *, replace: bool) -> None:
    """Write files into a folder, which is made if need be, all or none: each has its name once all are on the disk, the
    last one last. Raises UsageError when one is there already and may not be replaced, and when the folder cannot be
    written to."""
    made = list(files)
    _require_free(folder, [name for name, _ in made], force=replace)
    try:
        with contextlib.ExitStack() as stack:
            for name, content in reversed(made):
                file = stack.enter_context(replacing(folder / name))
                file.write(content)
                file.flush()
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror}", remedy="choose another --to") from None


def _require_free(folder: Path, names: Sequence[str], *, force: bool) -> None:
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(
            f"{folder / there[0]} is there already{more}", remedy="--force replaces it, or choose another --to"
        )


PICKLE = "*/tests/fixtures/MSFT_chain.pkl"
CHAIN = (
    "quote_date", "contract", "bid", "ask", "volume", "open_interest", "iv", "delta", "gamma", "theta", "vega", "spot",
)  # fmt: skip
_DAYS_A_YEAR, _POINTS = 365, 100


def msft_tables(files: Mapping[PackageFile, Path]) -> Iterator[Table]:
    """The file's theta is for a year and its vega for a volatility of 1.00; here they are for a day and a point."""
    (path,) = files.values()
    chain = plain_pickle(member(path, PICKLE), path.name)
    if not isinstance(chain, dict):
        raise UsageError(f"{path.name} has no chain by day", remedy="fetch it again")
    try:
        rows = [_quote(row) for _, quotes in sorted(chain.items()) for row in quotes]
        closes = {row["quote_datetime"].date(): row["spot_price"] for quotes in chain.values() for row in quotes}
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path.name} has another layout: {error!r}", remedy="fetch it again") from None
    yield Table("chains.csv", CHAIN, rows)
    yield Table("bars/MSFT.csv", ("date", "close"), sorted(closes.items()))


def _quote(row: Mapping[str, Any]) -> tuple[object, ...]:
    quoted: dt.datetime = row["quote_datetime"]
    # Its ids have eight digits of a date and a strike in hundredths, so the contract is made of the terms.
    contract = contract_of(row["symbol"], row["expiration"], row["option_type"], Decimal(str(row["strike"])))
    return (
        quoted.date(),
        contract.symbol,
        row["bid"],
        row["ask"],
        row["volume"],
        row["open_interest"],
        row["implied_volatility"],
        row["delta"],
        row["gamma"],
        round(row["theta"] / _DAYS_A_YEAR, 8),
        round(row["vega"] / _POINTS, 8),
        row["spot_price"],
    )


NEWS = "nasdaq_news/data/*.json"
CLOSES = "portfolio_backtester/data/SP500 *[0-9].csv"
VOLUMES = "portfolio_backtester/data/SP500 * volume.csv"
FIRST_BAR, FIRST_HEADLINE = dt.date(2017, 1, 1), dt.date(2019, 1, 1)


def news_tables(files: Mapping[PackageFile, Path]) -> Iterator[Table]:
    news, prices = _split(files)
    headlines = {name: rows for name, rows in _headlines(news) if rows}
    closes, volumes = (_csv_columns(member(prices, pattern), prices) for pattern in (CLOSES, VOLUMES))
    symbols = sorted(headlines.keys() & closes.keys())
    if not symbols:
        raise UsageError(f"{news.name} and {prices.name} have no name in common", remedy="fetch them again")
    for symbol in symbols:
        volume = volumes.get(symbol, {})
        rows = [(day, close, volume.get(day, "")) for day, close in closes[symbol].items()]
        yield Table(f"bars/{symbol}.csv", ("date", "adj close", "volume"), rows)
    last = max(day for symbol in symbols for day in closes[symbol])
    kept = [row for symbol in symbols for row in headlines[symbol] if str(row[1])[:10] <= last]
    yield Table("universe.csv", ("symbol",), [(symbol,) for symbol in symbols])
    yield Table("headlines.csv", ("symbol", "time", "headline", "source", "url"), kept)


def _split(files: Mapping[PackageFile, Path]) -> tuple[Path, Path]:
    news = next(path for wanted, path in files.items() if wanted.package == NASDAQ_NEWS.package)
    prices = next(path for wanted, path in files.items() if wanted.package != NASDAQ_NEWS.package)
    return news, prices


def _headlines(path: Path) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    for name, content in members(path, NEWS):
        try:
            rows = sorted({_headline(row) for row in orjson.loads(content)}, key=str)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path.name}: {name} has another layout: {error!r}", remedy="fetch it again") from None
        yield Path(name).stem, [row for row in rows if str(row[1]) >= FIRST_HEADLINE.isoformat()]


def _headline(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a headline as a line; its time is New York's, and one of 00:00:00 is a day alone."""
    moment = dt.datetime.fromisoformat(row["publishedDate"])
    time = moment.date().isoformat() if moment.time() == dt.time() else moment.replace(tzinfo=NEW_YORK).isoformat(" ")
    return row["symbol"], time, " ".join(row["title"].split()), row["site"], row["url"]


def _csv_columns(content: bytes, path: Path) -> dict[str, dict[str, str]]:
    reader = csv.reader(io.StringIO(content.decode("utf-8")))
    header = next(reader)
    found: dict[str, dict[str, str]] = {symbol: {} for symbol in header[1:]}
    for line in reader:
        day = line[0][:10]
        if day >= FIRST_BAR.isoformat():
            for symbol, cell in zip(header[1:], line[1:], strict=True):
                if cell:
                    found[symbol][day] = cell
    if not any(found.values()):
        raise UsageError(f"{path.name} has no prices since {FIRST_BAR}", remedy="fetch it again")
    return found


_MAKERS = {MSFT_CHAIN.name: msft_tables, NEWS_2020.name: news_tables}

Fetch = Callable[[PackageFile, Path], Path]
Agreed = Callable[[Preview], bool]


class Imported(NamedTuple):
    folder: Path
    sample: Sample | None  # None for the user's own files
    made: bool  # False where it was there already, or the preview was not agreed to
    aside: SetAside  # what was left out


def import_data(
    sources: Sequence[str],
    to: Path | None,
    *,
    force: bool,
    source: Path | None = None,
    fetched: Fetch = fetch,
    agreed: Agreed = lambda _: True,
) -> Imported:
    """source: the user's copy of a source that is named and not fetched. agreed: asked before files of the user's own
    are written; nothing is where it is False. Raises UsageError naming what cannot be imported, and why."""
    if list(sources) == [pystock.NAME]:
        return _import_pystock(source, to, force=force)
    if source is not None:
        raise UsageError(f"--from is for {pystock.NAME} alone", remedy="name files and folders without it")
    if len(sources) == 1 and sources[0] in SAMPLES:
        return import_sample(SAMPLES[sources[0]], {}, to, force=force, fetched=fetched)
    paths = [_path(source) for source in sources]
    if all(path.is_dir() or is_read(path.name) for path in paths):
        return _import_own(paths, to, force=force, agreed=agreed)
    known = {wanted.sha256: (sample, wanted) for sample in SAMPLES.values() for wanted in sample.files}
    found = {path: known.get(digest_of(path)) for path in paths}
    strange = [path for path, which in found.items() if which is None]
    if strange:
        kind = strange[0].suffix.lower()
        if kind in WORKBOOKS:
            raise UsageError(f"{strange[0].name} is a workbook, which is not read", remedy="save it as CSV UTF-8")
        if kind in NESTED - {".whl", ".jar"}:
            raise UsageError(
                f"{strange[0].name} is packed as {kind}, which is not read", remedy="unpack it, or use .gz"
            )
        reason = f"{strange[0].name} is no data file and no package file of a sample, by its SHA-256"
        raise UsageError(reason, remedy=_remedy())
    samples = {which[0].name: which[0] for which in found.values() if which is not None}
    if len(samples) > 1:
        raise UsageError(f"these are files of {' and '.join(samples)}", remedy="import one sample at a time")
    (sample,) = samples.values()
    files = {which[1]: path for path, which in found.items() if which is not None}
    return import_sample(sample, files, to, force=force, fetched=fetched)


def import_sample(
    sample: Sample, files: Mapping[PackageFile, Path], to: Path | None, *, force: bool, fetched: Fetch = fetch
) -> Imported:
    """An existing folder is left as it is unless forced. files: those at hand; the others are fetched."""
    folder = to or Path.cwd() / sample.name
    if _holds(folder, sample) and not force:
        return Imported(folder, sample, False, SetAside())
    with tempfile.TemporaryDirectory(prefix="desk-data-") as aside:
        at_hand = {wanted: files.get(wanted) or fetched(wanted, Path(aside)) for wanted in sample.files}
        for wanted, path in at_hand.items():
            require_hash(path, wanted)
        tables: Iterator[Table] = _MAKERS[sample.name](at_hand)
        made = [(table.name, table.content()) for table in tables]
    about = ("\n".join(sample.about) + "\n").encode()
    write_files(folder, [*made, (ABOUT, about)], replace=force)
    return Imported(folder, sample, True, SetAside())


def _holds(folder: Path, sample: Sample) -> bool:
    """Return whether a folder has the sample in whole: what states its origin is written last."""
    try:
        return (folder / ABOUT).read_text(encoding="utf-8").startswith(f"{sample.name}:")
    except (OSError, UnicodeDecodeError):
        return False


def _import_pystock(source: Path | None, to: Path | None, *, force: bool) -> Imported:
    if source is None:
        remedy = f"desk data import {pystock.NAME} --from FOLDER, your copy of github eliangcs/pystock-data"
        raise UsageError(f"{pystock.NAME} is made of captures that you have", remedy=remedy)
    folder, aside = to or Path.cwd() / pystock.NAME, SetAside()
    _require_free(folder, ("bars.csv",), force=force)  # before minutes of work
    files = list(pystock.market_files(source, aside))
    about = ("\n".join(pystock.ABOUT) + "\n").encode()
    write_files(folder, [*files, (SET_ASIDE, aside.content()), (ABOUT, about)], replace=force)
    return Imported(folder, None, True, aside)


def _import_own(paths: Sequence[Path], to: Path | None, *, force: bool, agreed: Agreed) -> Imported:
    folder, aside = to or Path.cwd() / paths[0].stem.lower(), SetAside()
    with tempfile.TemporaryDirectory(prefix="desk-data-") as room:
        bars, others = _sorted_out(paths, Path(room), aside)
        made = {f"{BARS_OF_A_SYMBOL}/{symbol}.csv": rows for symbol, rows in _put_together(bars, others, aside).items()}
        _require_some(paths[0], made, others, aside)
        _require_free(folder, [*made, *others], force=force)
        made = _usable(folder, made, others, aside)
        _require_some(paths[0], made, others, aside)
        by_symbol = {PurePosixPath(name).name.removesuffix(CSV): rows for name, rows in made.items()}
        if not agreed(preview_of(by_symbol, {name: given.name for name, given in others.items()}, aside)):
            return Imported(folder, None, False, aside)
        files = [(name, _content(given.path)) for name, given in others.items()]
        files += [(name, Table(name, *table_of(rows)).content()) for name, rows in made.items()]
    write_files(folder, [*files, *([(SET_ASIDE, aside.content())] if aside.rows else [])], replace=True)
    return Imported(folder, None, True, aside)


def _require_some(path: Path, made: Mapping[str, Any], others: Mapping[str, Given], aside: SetAside) -> None:
    """Raise UsageError with the commonest reason where nothing is left to be written."""
    if made or others:
        return
    counts = Counter(one.kind for one in aside.rows)
    first = next((one for one in aside.rows if one.kind == counts.most_common(1)[0][0]), None)
    place = f"{first.file} row {first.row}" if first is not None and first.row else first.file if first else ""
    why = f": {place}: {first.reason}" if first else ""
    more = f", and {len(aside.rows) - 1} more rows and files" if len(aside.rows) > 1 else ""
    remedy = "put it right in the file, and import again" if first else _remedy()
    raise UsageError(f"{path} has nothing that can be imported{why}{more}", remedy=remedy)


def _sorted_out(paths: Sequence[Path], room: Path, aside: SetAside) -> tuple[dict[str, list[Bar]], dict[str, Given]]:
    """Return (bars by symbol, further files by their names in a data folder). room: for what archives hold."""
    bars: dict[str, list[Bar]] = defaultdict(list)
    others: dict[str, Given] = {}
    found = gathered(paths, room, aside)
    for given in found:
        try:
            name = _name_of(given)
        except Oversized as error:
            aside.add(given.name, None, "a file that is too large", str(error))
            continue
        if name == BARS_OF_A_SYMBOL:
            for symbol, rows in bars_of(given, aside).items():
                bars[symbol] += rows
        elif name is None and len(found) > 1:
            aside.add(given.name, None, "none of the usual columns", f"{found_in(given.path)}; {WANTED}")
        elif name is None:
            reason = f"{given.name} has none of the usual columns: {found_in(given.path)}"
            raise UsageError(reason, remedy=WANTED)
        elif name in others:
            remedy = "import one of them"
            raise UsageError(f"{given.name} and {others[name].name} would both be {name}", remedy=remedy)
        else:
            others[name] = given
    return bars, others


def _put_together(bars: Mapping[str, list[Bar]], others: Mapping[str, Given], aside: SetAside) -> dict[str, list[Bar]]:
    """Return each symbol's bars in the order of their days: spellings of one share together, what two files have alike
    once, and no history that is put together of downloads on two bases."""
    listed: list[str] = []
    if UNIVERSE in others:
        columns = {"symbol": UNIVERSE_COLUMNS["symbol"]}
        listing = rows_of(others[UNIVERSE].path, others[UNIVERSE].name, columns, Problems(most=0))
        listed = [values["symbol"] for _, values, _ in listing]
    spelling = class_spellings(bars, listed)
    joined: dict[str, list[Bar]] = defaultdict(list)
    for symbol, rows in bars.items():
        if symbol in spelling and rows:
            aside.note(rows[0].origin[0], "another spelling of a share", f"{symbol} is {spelling[symbol]}")
        joined[spelling.get(symbol, symbol)] += rows
    found = {}
    for symbol, rows in joined.items():
        once = _once(sorted(rows, key=lambda bar: bar.day), aside)
        if (border := _border_of_bases(once) or _two_of_a_day(once)) is not None:
            before, after = border
            shown = f"{close_of(before):g} on {before.day} in {before.origin[0]}"
            detail = f"{symbol} has {shown}, and {close_of(after):g} on {after.day}; take one download of all days"
            aside.add(after.origin[0], after.origin[1], "a history of files on two bases", detail)
        elif once:
            found[symbol] = once
    return found


def _once(rows: Sequence[Bar], aside: SetAside) -> list[Bar]:
    """Return bars without those that repeat another of their day, figure by figure."""
    seen: set[tuple[object, ...]] = set()
    kept: list[Bar] = []
    for bar in rows:
        key = (bar.day, *((name, figure_of(bar, name)) for name in sorted(bar.figures)))
        if key in seen:
            aside.note(bar.origin[0], "bars that are there already with the same figures", f"{bar.day}")
        else:
            seen.add(key)
            kept.append(bar)
    return kept


def _border_of_bases(rows: Sequence[Bar]) -> tuple[Bar, Bar] | None:
    """Return the two bars between which one file ends and another begins, where the adjusted closes move as in a split:
    they would not, were both of one download."""
    for before, after in pairwise(rows):
        closes = figure_of(before, "adjusted"), figure_of(after, "adjusted")
        if before.origin[0] != after.origin[0] and all(closes) and moves_like_splits(np.array(closes, dtype=float)):
            return before, after
    return None


_ALIKE = 5  # days that two files of a name have, by which their bases are told
_APART = 0.005  # by which they differ at least
_STEADY = 0.002  # by which their ratio may wander: closes in cents


def _two_of_a_day(rows: Sequence[Bar]) -> tuple[Bar, Bar] | None:
    """Return the first two bars of one day, where two files have closes in one ratio on all days that they share: each
    would be right alone, and put together they move where the price did not."""
    shared: dict[tuple[str, str], list[tuple[Bar, Bar]]] = defaultdict(list)
    for before, after in pairwise(rows):
        if before.day == after.day and before.origin[0] != after.origin[0]:
            one, other = sorted((before, after), key=lambda bar: bar.origin[0])
            shared[one.origin[0], other.origin[0]].append((one, other))
    for pairs in shared.values():
        closes = [(close_of(one), close_of(other)) for one, other in pairs]
        ratios = [one / other for one, other in closes if one and other]
        if len(ratios) < _ALIKE:
            continue
        middle = median(ratios)
        steady = all(abs(one / middle - 1) < _STEADY for one in ratios)
        if abs(middle - 1) > _APART and steady:
            return pairs[0]
    return None


_ROUNDS = 8


def _usable(
    folder: Path, bars: dict[str, list[Bar]], others: Mapping[str, Given], aside: SetAside
) -> dict[str, list[Bar]]:
    """Return the bars without the rows that the check of a folder finds wrong, of the folder as it would be with the
    files in it. Raises UsageError with the first error of another file."""
    for _ in range(_ROUNDS):
        errors = [one for one in _errors(folder, bars, others) if one.file in bars or one.file in others]
        if wrong := next((one for one in errors if one.file in others), None):
            first = replace(wrong, file=others[wrong.file].name)
            raise UsageError(f"{first}; nothing was imported", remedy="put it right in the file, and import all again")
        if not errors:
            return bars
        by_file: dict[str, dict[int | None, str]] = defaultdict(dict)
        for one in errors:
            by_file[one.file].setdefault(one.row if one.row != 1 else None, one.message)
        for name, rows in by_file.items():
            bars = _without(bars, name, rows, aside)
    for name in {one.file for one in _errors(folder, bars, others)} & bars.keys():
        bars = _without(bars, name, {None: "errors in more and more of its rows"}, aside)
    return bars


def _without(
    bars: dict[str, list[Bar]], name: str, rows: Mapping[int | None, str], aside: SetAside
) -> dict[str, list[Bar]]:
    """rows: why each is left out, by its row in the file as it would be; None is the whole file."""
    held = bars[name]
    if None in rows:
        aside.add(held[0].origin[0], None, "a file that cannot be used", rows[None])
        kept = []
    else:
        for row, message in sorted(rows.items(), key=lambda one: one[0] or 0):
            aside.add(*held[(row or 0) - FIRST_ROW].origin, "a bar that cannot be used", message)
        kept = [bar for at, bar in enumerate(held, FIRST_ROW) if at not in rows]
    return {other: rows for other, rows in {**bars, name: kept}.items() if rows}


FIRST_ROW = 2


def _errors(folder: Path, bars: Mapping[str, Sequence[Bar]], others: Mapping[str, Given]) -> list[FileProblem]:
    with tempfile.TemporaryDirectory(prefix="desk-data-") as aside:
        room = Path(aside)
        there = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        for name, path in (there | {name: given.path for name, given in others.items()}).items():
            if name not in bars:
                (room / name).parent.mkdir(exist_ok=True, parents=True)
                (room / name).symlink_to(path.absolute())
        for name, rows in bars.items():
            (room / name).parent.mkdir(exist_ok=True, parents=True)
            (room / name).write_bytes(Table(name, *table_of(rows)).content())
        return check_folder(room, "auto", 1 << 30).problems.of("error")


BARS_OF_A_SYMBOL = "bars"
WANTED = (
    "there must be date and close (bars), quote date, contract, bid and ask (chains), symbol, period end, filed, item "
    "and value (statements), or symbol, time and headline"
)
UNIVERSE = "universe.csv"
_BY_NAME = (UNIVERSE, "earnings.csv", "actions.csv", "changes.csv")


def _name_of(given: Given) -> str | None:
    """Return what a file is called in a data folder, by its name or its columns; BARS_OF_A_SYMBOL for bars of any."""
    path, ending = given.path, given.path.suffix.lower().replace(TEXT, CSV).replace(TABBED, CSV)
    if (name := PurePosixPath(given.name.rpartition(":")[2]).name) in _BY_NAME:
        return name
    if ending == JSON:
        return BARS_OF_A_SYMBOL
    bars, chains, headlines, statements = columns_in(path, (OWN_BARS, CHAINS, HEADLINES, STATEMENTS))
    if chains >= {"quoted", "bid", "ask"} and (chains & {"contract", "strike"}):
        return f"chains{ending}"
    if headlines >= {"symbol", "time", "headline"}:
        return f"headlines{ending}"
    if statements >= {"symbol", "period", "known_at", "item", "value"}:
        return f"statements{ending}"
    series = ending == JSON_LINES and not bars and path.stat().st_size
    return BARS_OF_A_SYMBOL if series or ("day" in bars and bars & {"close", "adjusted"}) else None


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return held(path.name, file, MOST_BYTES)
    except Oversized as error:
        raise UsageError(str(error), remedy="import it in parts") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file that is there") from None


def _path(source: str) -> Path:
    path = expanded(source)
    if not path.exists():
        raise UsageError(f"{source!r} is no sample and no file", remedy=_remedy())
    return path


def _remedy() -> str:
    return (
        f"give one of {', '.join(SAMPLES)}, the package files of one, or CSV, JSON or Parquet files of your own, "
        "also packed as .gz, a folder of them, or a zip archive"
    )
