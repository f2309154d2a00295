"""Models of any provider by the library LiteLLM."""

from chordesk.models.features import Feature, Runtime

FEATURE = Feature(
    name="litellm",
    runtimes={
        "litellm": Runtime(
            package="litellm",
            install="pip install 'chordesk[litellm]'",
            build="chordesk.agents.litellm.runtime:build",
            library="chordesk.agents.litellm.library:library",
        )
    },
    checks=("chordesk.tasks.doctor.model:LITELLM_CHECK",),
)
