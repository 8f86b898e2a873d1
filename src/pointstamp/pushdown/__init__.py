"""Pushdown: the part of a flow that an upstream engine executes, as SQL.

``prefix`` walks from each input of a plan along operators that keep nothing, up to a reduction of which parts
can be made, and gives the ``steps`` and the plan that is left; it also adds partial sums together. Which
expressions may be pushed is decided by ``wording``, an allow-list, which writes them in Spark's SQL. Nothing
here knows Spark: ``pointstamp.spark`` applies the steps, and a flow's description shows them.
"""
