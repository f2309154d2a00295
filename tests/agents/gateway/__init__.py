"""The gateway between app-servers and model servers."""
