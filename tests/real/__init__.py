"""The desk on a real language model: `make real`. For development; it is no part of the suite."""
