"""One worker: a copy of the flow, its operators, ports and snapshots.

``worker`` alone decides what happens next: it takes batches from ``input`` and the transport of ``ports``,
sends them along ``routes`` and lets each ``instance`` act on its ``inbox``. ``snapshots`` saves instances;
``events`` say what has happened.
"""
