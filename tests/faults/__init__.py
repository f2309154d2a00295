"""The faults that a desk must outlive: real processes are killed, and what they left is counted."""
