"""Reductions by key: aggregates, their state and operators.

``reductions`` are the operators; they keep their rows in ``groups``, which has one of ``states`` for each
``aggregate`` and lets ``accumulators`` change it. ``columns`` brings a state to Arrow and back.
"""
