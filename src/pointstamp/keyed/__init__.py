"""Indexes of keys to slots.

``index`` maps keys to slots; it asks ``codec`` for a column's coded form, keeps that in ``columns``, and
looks numbers up in ``table``.
"""
