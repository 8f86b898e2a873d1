"""Arrangements: tables by key as sorted runs, the storage engine of tables.

    changes -> open_changes -> arrangement -> operators (joins, aggregates, distinct, top k)
               one epoch's     runs, merged
                                  | run, in memory or in a spill_file

    Arrangement     a table by key, as one operator reads it      (arrangement)
      Kept          shares its rows among the operators of a worker
        Runs        holds runs and merges them by size: Merge     (runs)
          Run       sorted rows with weights, never changed       (run)
            RunFile the same in a file                            (spill_file)
    OpenChanges     changes of times that are not complete        (open_changes)
    Calendar        rows that wait for event time                 (time_index)

``column_arrays`` are the columns of runs. ``consolidate`` sorts rows and sums the weights of equal ones,
``ordering`` is an order by columns, ``groups`` are the rows of keys side by side, and ``top_rows`` the first
rows of a key. ``loop_times`` are the rounds of loops.
"""
