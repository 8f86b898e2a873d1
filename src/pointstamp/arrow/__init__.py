"""Loops over the buffers of Arrow and numpy, compiled ahead of time: one loop for each step, at every size.

``hashing`` hashes values as ``pointstamp.rows.hashing`` defines it, ``columns`` takes rows out of columns and
compares them, ``runs`` orders, merges and searches what is sorted by words of 64 bits, and ``slots`` is a
table of hashes. What stands here owns no state but its tables, and checks nothing that the border has
checked: an array has the type that its name says, is one piece, and positions are within it.

The sources are Cython's (``*.pyx``, their types for Python in ``*.pyi``). ``scripts/compile_core.py``
compiles them, as a part of ``make setup`` and of every wheel, and ``pointstamp.compiled`` finds what it has
made. There is no other implementation of them to fall back to.
"""
