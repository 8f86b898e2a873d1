"""Rules of the optimizer: functions from the roots of a plan to equal roots.

    fold_constants          values that are the same for every row; contradictions; tables without rows
    push_predicates         conditions are evaluated as far upstream as they may be
    push_into_recursion     a condition on a column that no body changes restricts the recursion itself
    narrow_joins            outer to inner joins; semi joins in place of joins with a distinct
    use_keys                Distinct, Aggregate and TopK that a key makes needless
    order_joins             joins that cannot multiply rows first
    push_top                the first rows before a join that only adds columns
    first_rows              places that a condition bounds are first rows; what always holds of them is gone
    single_values           a greatest or least value of a table that only grows is a first row
    plain_names             columns are called by what they are; projections that only rename are gone
    share_subplans          equal operators over the same inputs are one operator
    prune_columns           columns that no reader needs are not read, and not kept
    fuse_rows               neighboring steps of one row become one step
    aggregate_in_parts      sums and first rows begin at each worker, before the exchange

``rewriting`` has what all rules need of plans, ``conditions`` what they need of expressions. What Spark
computes of a bounded input is decided for the physical plan, in ``pointstamp.pushdown``, and shown with it.

The law of all rules: after every epoch each root has the same rows, as often as before. A rule never
evaluates an expression that can raise for a row for which it was not evaluated before; it may evaluate it for
fewer, so an optimized plan can fail less often than the plan that was written. Only recursions can fail more
often: a join in a loop sends some pairs that cancel within a round, and which ones depends on the plan. All
columns keep their order below operators for which the order of columns decides between rows (TopK,
WindowFunctions).
"""
