"""The WebSocket for programs: subscriptions to events, and what a program may do, over one connection."""
