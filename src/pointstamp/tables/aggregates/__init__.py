"""The aggregates of tables: SQL's and custom ones, of rows that are inserted and deleted.

``asked_aggregates`` checks what a reduction was asked for. ``sums`` are those that are kept as sums, exactly,
by ``limbs``; ``aggregating`` asks all others again of the rows of a group, by ``group_values``: those that
add (``adding``), choose (``choosing``) and collect (``collecting``). ``decimals`` have Spark's digits.
"""
