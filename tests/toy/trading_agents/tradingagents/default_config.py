"""Its defaults."""

from __future__ import annotations

import os

DEFAULT_CONFIG = {
    "results_dir": os.path.expanduser("~/.toy/logs"),
    "data_cache_dir": os.path.expanduser("~/.toy/cache"),
    "memory_log_path": os.path.expanduser("~/.toy/memory.md"),
    "llm_provider": "openai",
    "deep_think_llm": "gpt-5.5",
    "quick_think_llm": "gpt-5.5",
    "backend_url": None,
    "temperature": None,
    "checkpoint_enabled": False,
    "max_debate_rounds": 1,
    "max_risk_discuss_rounds": 1,
    "data_vendors": {"core_stock_apis": "live", "technical_indicators": "live", "fundamental_data": "live",
                     "news_data": "live", "macro_data": "live", "prediction_markets": "live"},
    "tool_vendors": {},
}  # fmt: skip
