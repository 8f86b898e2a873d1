"""What of a flow an engine in front of the workers may do: found in the plan, and said in SQL's words.

``prefix`` walks from each input of a plan along operators that keep nothing, up to a reduction of which parts
can be made, and gives the ``steps`` and the plan that is left. Which expressions may go is decided by
``wording``, an allow-list, which also says them in Spark's SQL. ``wide_sum`` brings partial sums together.
Nothing here knows Spark: ``pointstamp.spark`` applies the steps, and a flow's description shows them.
"""
