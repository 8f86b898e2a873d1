"""Graph algorithms, written with the public API only."""
