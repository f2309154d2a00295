"""Commands about what the desk keeps: `desk gc`, `desk backup`, `desk restore`."""
