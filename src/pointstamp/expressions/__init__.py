"""Column expressions: built by users, typed with the flow, run as Arrow kernels.

``tree`` is what users write and ``functions`` are the public functions; ``type_rules`` says which types have
a common type. ``signature`` is what a function accepts and returns; the modules of kernels (``arithmetic``,
``comparison``, ``strings``, ``dates`` and others) register theirs. ``compiler`` turns a tree into a function
of a batch, once; ``branches`` evaluates what could raise on the rows that need it. ``value_text`` reads and
prints values as Spark does, and ``zones`` is the time zone.
"""
