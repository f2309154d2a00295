"""Wires to the venues: one module a venue with its requests and the shapes of its answers. They place nothing."""
