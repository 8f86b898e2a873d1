"""One worker: a copy of the flow, its operators, ports and snapshots.

    input, transport -> worker -> instance: one operator with its inbox -> routes -> transport

``worker`` alone decides what happens next: it takes batches from ``input`` and the transport of
``protocols``, lets each ``instance`` act on what waits for it, and sends batches along ``routes``.
``snapshots`` saves instances; ``tails`` computes frontiers of outputs that no other worker can reach;
``events`` say what has happened. ``lineage`` ends copies of the process that a user's function forks.
"""
