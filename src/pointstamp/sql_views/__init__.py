"""SQL as incremental views: a text is compiled to tables and expressions.

    text -> parsing -> statements -> queries -> select_clause -> tables
                                                  | from_clause, group_by, over_clause, order_by

``entry`` is what users call. ``statements`` declares inputs and views; ``desugaring`` writes short forms out.
``queries`` has set operations and common tables, with ``with_recursive``; ``select_clause`` compiles one
select, with ``from_clause``, ``join_pool``, ``subqueries``, ``group_by`` and ``over_clause``. All of them
translate expressions with ``expression_translation``, which knows names by ``scope`` and functions by
``sql_functions``. What cannot be kept up to date raises the errors of ``rejection``, with the place in the
text.
"""
