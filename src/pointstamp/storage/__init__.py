"""Durable objects under names: in memory, in local files, on any path that fsspec knows.

``port`` is what is asked of a storage; ``memory``, ``local`` and ``anywhere`` are three, which share the
sentences of ``words``; ``proving`` tries whether a far one keeps its promise. ``sealed`` and ``sealed_json``
wrap what is stored, so that it can prove itself.
"""
