"""Runs without a journal: in this process and in several, fed and watched."""
