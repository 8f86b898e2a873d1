"""Spark's analyzer as a front end: DataFrames and Spark SQL texts to logical plans.

- ``views``: DataFrames and texts to logical plans, with the tables that they read;
- ``rules``: the analyzed plan of a DataFrame, with chosen rules of Catalyst applied;
- ``trees``: the JSON of such a plan as trees of nodes, and its types;
- ``translation``: the state of one translation, and expressions of Catalyst to expressions of ours;
- ``operators``: nodes of the plan to logical operators, with ``joins``, ``aggregates`` and ``windows``.
"""
