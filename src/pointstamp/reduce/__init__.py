"""Reductions by key: aggregates, what they keep per key, and the operators that run them."""
