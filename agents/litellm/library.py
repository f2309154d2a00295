"""The library LiteLLM, loaded late: it takes seconds and as much memory as the desk itself."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any

from agents.role_models import PROVIDER_KEYS
from models.settings.secret_files import SUFFIX, from_files

# Read by the library as it is imported. Without them it fetches price lists and headers, and loads a .env of its own.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
# Their lines repeat what the turn's own failure says, and some have a key in a URL.
_CHATTY = ("LiteLLM", "httpx", "httpcore", "openai", "openai._base_client")


@cache
def library() -> Any:
    """Return the library, set so that nothing but a model's call goes out and a call is sent once. It reads the
    providers' keys from the environment alone, so those in files are put there. Raises SettingError."""
    keys = [name for names in PROVIDER_KEYS.values() for name in names]
    files = from_files(os.environ, keys)
    os.environ.update(ENVIRONMENT | files)
    for name in files:
        del os.environ[name + SUFFIX]  # both would contradict each other from here on
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = True  # an effort that a model does not know, for instance
    litellm.num_retries = 0
    litellm.disable_hf_tokenizer_download = True
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


async def close_clients() -> None:
    """Close the library's connections and end its own task, which belong to the running loop."""
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await GLOBAL_LOGGING_WORKER.stop()
    await close_litellm_async_clients()
