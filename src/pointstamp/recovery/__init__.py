"""Snapshots at closed epochs, where to restart, and publishing output once."""
