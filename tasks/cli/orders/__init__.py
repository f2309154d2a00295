"""Commands about orders, approvals, mandates, the audit log and the kill switch."""
