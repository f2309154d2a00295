"""The audit log: a hash chain of every decision, check, approval, submission and fill."""
