"""Models of any provider by the library LiteLLM."""

from chordesk.models.features import Feature, Runtime

PROVIDER_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}

FEATURE = Feature(
    name="litellm",
    modules=("chordesk.agents.litellm", "chordesk.tasks.litellm"),
    runtimes={
        "litellm": Runtime(
            package="litellm",
            install="pip install 'chordesk[litellm]'",
            build="chordesk.agents.litellm.runtime:build",
            library="chordesk.agents.litellm.library:library",
            by_provider=True,
            keys=PROVIDER_KEYS,
        )
    },
    checks=("chordesk.tasks.litellm.checks:LITELLM_CHECK",),
)
