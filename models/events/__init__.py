"""Events and telemetry records: the envelope, the event log, and the lifecycles they describe."""
