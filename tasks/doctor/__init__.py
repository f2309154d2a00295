"""The pre-flight: one function a check, each with a verdict and a remedy."""
