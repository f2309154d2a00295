"""The Yahoo market: live and delayed prices through yfinance, throttled and cached."""
