"""The logical plan as data, and its lowering to physical operators.

    front ends (tables, SQL, graphs, Spark)
        -> ``logical``, ``streams``: operators as frozen dataclasses, typed when they are made
        -> ``recursion``: loops of tables become recursions, inputs scans
        -> ``properties``: what is true of the tables of operators
        -> ``optimizer``: rules, one per file of ``rules``
        -> ``lowering``: logical operators to physical ones; the only place that chooses an algorithm
        -> ``signatures``, ``steps``: which state a physical operator finds again, and what it is a part of

``logical`` checks schemas and types once. ``lowering`` builds a flow from logical operators, with the loops
that their recursions need.
"""
