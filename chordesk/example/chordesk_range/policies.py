"""The policies: fixed rules in place of a model, for the demo and for tests (DESK_PROVIDER=rulebook)."""

from __future__ import annotations

from chordesk.plugins import PREFIX, UNDECIDED, Call, Case, Payload, number, policy, symbols_of

SESSIONS = 20


@policy("liquidity")
def liquidity(case: Case) -> Call | Payload:
    """Caution where the day's volume is less than half of that of the sessions before."""
    symbol = str(case.subject.get("symbol", ""))
    if call := case.next_call([Call("signals_get", {"symbols": [symbol]})]):
        return call
    row = next((row for row in case.signals() if row.get("symbol") == symbol), {})
    ratio = number(row, "volumeRatio")
    thin = ratio is None or ratio < 0.5
    gaps = case.gaps(["signals_get"], symbol)
    return {
        "verdict": "CAUTION" if thin else "CONFIRMED",
        "confidence": "low" if ratio is None else "high",
        "summary": f"{PREFIX} {symbol}: volume ratio {ratio}. Missing: {'; '.join(gaps) or 'nothing'}.",
        "keyRisks": ["thin volume"] if thin else [],
        "thesis": UNDECIDED,
    }


@policy("screener_calm")
def calm(case: Case) -> Call | Payload:
    """Put forward the three names of the list whose prices moved least; a name without bars is left out."""
    asked = Call("range_get", {"symbols": symbols_of(case.subject), "sessions": SESSIONS})
    if call := case.next_call([asked]):
        return call
    rows = sorted(case.rows("range_get", "ranges"), key=_move)[:3]
    return {"candidates": [_candidate(row) for row in rows]}


def _candidate(row: Payload) -> Payload:
    thesis = f"{PREFIX} low {row['low']:.2f} and high {row['high']:.2f} of {SESSIONS} sessions."
    return {"symbol": row["symbol"], "instrument": "equity", "confidence": "medium", "thesis": thesis}


@policy("range_note")
def range_note(case: Case) -> Call | Payload:
    symbol = str(case.subject.get("symbol", ""))
    if call := case.next_call([Call("range_get", {"symbols": [symbol], "sessions": SESSIONS})]):
        return call
    rows = case.rows("range_get", "ranges")
    if not rows:
        return {"move": "unknown", "summary": f"{PREFIX} {'; '.join(case.gaps(['range_get'], symbol))}."}
    move = "small" if _move(rows[0]) < 1.1 else "large"
    return {"move": move, "summary": f"{PREFIX} {symbol}: low {rows[0]['low']:.2f}, high {rows[0]['high']:.2f}."}


def _move(row: Payload) -> float:
    return float(row["high"] / row["low"])
