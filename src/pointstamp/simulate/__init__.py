"""Simulated worlds: the same workers, with one seed deciding what is left to chance."""
