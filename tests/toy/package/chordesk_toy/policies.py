"""The policies of the toy's roles."""

from chordesk.plugins import PREFIX, UNDECIDED, Call, Case, Payload, policy, symbols_of


@policy("toy")
def toy(case: Case) -> Call | Payload:
    symbol = str(case.subject.get("symbol", ""))
    if call := case.next_call([Call("toy_range", {"symbols": [symbol]})]):
        return call
    row = next((row for row in case.rows("toy_range", "ranges") if row.get("symbol") == symbol), {})
    return {
        "verdict": "CONFIRMED",
        "confidence": "high" if row else "low",
        "summary": f"{PREFIX} {symbol} was between {row.get('low')} and {row.get('high')}.",
        "keyRisks": [],
        "thesis": UNDECIDED,
    }


@policy("screener_toy")
def screener_toy(case: Case) -> Call | Payload:
    first = {"instrument": "equity", "confidence": "medium", "thesis": f"{PREFIX} a toy."}
    return {"candidates": [{"symbol": symbol, **first} for symbol in symbols_of(case.subject)[:1]]}
