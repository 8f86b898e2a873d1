"""Spark's analyzer as a front end: DataFrames and Spark SQL texts to logical plans.

- ``rules``: the analyzed plan of a DataFrame, with chosen rules of Catalyst applied;
- ``trees``: the JSON of such a plan as trees of nodes;
- ``expressions``: expressions of Catalyst to expressions of ours;
- ``operators``: nodes of the plan to logical operators.
"""
