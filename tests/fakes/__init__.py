"""The far sides of wires: what the desk talks to, played on loopback."""
