"""The policy of the liquidity role."""

from __future__ import annotations

from chordesk.plugins import PREFIX, UNDECIDED, Call, Case, Payload, number, policy


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
