"""Exploring a model state by state, and what is found."""
