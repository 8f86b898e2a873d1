"""Expressions over the columns of a row: written by users, typed when a flow is built, run as Arrow kernels.

``tree`` is what users write, ``typing`` says which types meet, the files of kernels (``arithmetic``,
``comparison``, ``strings``, ``dates``) say what each function takes, gives and does, and
``compiling`` turns a tree into a function of a batch, once. ``decimals`` has the floats that decimals become.
"""
