"""Arrow buffers: schemas, row hashing, keys as numbers, and compiled kernels.

    input rows -> schema -> row_hashing -> the worker that owns a row
                                   +-> key_index -> slots for the state of an operator

``schema`` accepts, converts or rejects rows, and ``ddl`` reads and prints schema strings; ``epoch_column`` is
an input column with the epochs of its rows. ``row_hashing`` hashes key columns and splits a batch by worker.
``key_index`` maps keys of any type to slots: ``key_codec`` encodes keys as integers or bytes and
``hash_table`` finds integers in bulk. ``arrays`` builds columns without pandas.

Kernels, written in Cython and compiled ahead of time, loop over the buffers of Arrow and numpy: ``hashing``
hashes values as ``row_hashing`` defines it, ``columns`` takes and compares rows, ``runs`` orders, merges and
searches sorted words of 64 bits. They check nothing that the border has checked: an array has the type that
its name says and is one piece.
"""
