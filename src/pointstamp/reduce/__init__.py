"""Reductions by key: aggregates, their state and operators.

``constructors`` are the public aggregates, ``aggregate`` values before they are bound to rows; ``binding``
gives one its accumulator and type. ``reductions`` are the operators, with one of ``states`` for each
aggregate, changed by ``accumulators``.
"""
