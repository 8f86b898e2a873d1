"""Rows: schemas and their text, hashes, and who owns which row."""
