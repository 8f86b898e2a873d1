# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Batches taken apart into columns and put together again in one call, through Arrow's C data interface.

A column is an array of numpy's, whose values have one width and are never null, or one of Arrow's. Both share
the memory of the values; nothing is copied.
"""

import numpy as np
import pyarrow as pa

cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uint8_t

cnp.import_array()

cdef extern from "Python.h":
    int Py_IsInitialized() nogil

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(
        PyTypeObject *kind, cnp.dtype dtype, int dimensions, cnp.npy_intp *shape, cnp.npy_intp *strides,
        void *data, int flags, PyObject *like
    )

# Arrow's C data interface, as https://arrow.apache.org/docs/format/CDataInterface.html defines it.
ctypedef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void (*release)(ArrowArray *) noexcept nogil
    void *private_data


cdef void _release_child(ArrowArray *array) noexcept nogil:
    """A column of numpy's has nothing of its own: its batch holds it."""
    array.release = NULL


cdef void _release_batch(ArrowArray *array) noexcept nogil:
    """Free a batch that was put together here: its columns of Arrow's, and what holds those of numpy's."""
    cdef int64_t each
    for each in range(array.n_children):
        if array.children[each].release != NULL:
            array.children[each].release(array.children[each])
    PyMem_RawFree(array.children)
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object>array.private_data)
    array.release = NULL


def columns_of(batch, tuple dtypes):
    """The columns of a batch: as arrays of numpy's where a type is given and no value is null, else of Arrow's.

    An array of numpy's keeps the whole batch in memory.
    """
    cdef ArrowArray whole
    cdef ArrowArray *child
    cdef const uint8_t *values
    cdef cnp.npy_intp rows
    cdef int64_t each
    cdef cnp.dtype dtype
    cdef list made = []
    batch._export_to_c(<size_t>&whole)
    try:
        assert whole.n_children == len(dtypes)
        for each in range(whole.n_children):
            child = whole.children[each]
            wanted = dtypes[each]
            if wanted is None or (child.null_count != 0 and child.buffers[0] != NULL):
                made.append(None)
                continue
            rows = child.length
            values = <const uint8_t *>child.buffers[1]
            if rows == 0 or values == NULL:
                made.append(np.empty(0, wanted) if rows == 0 else None)
                continue
            dtype = wanted
            Py_INCREF(dtype)  # which the array takes over
            column = PyArray_NewFromDescr(
                <PyTypeObject *>np.ndarray, dtype, 1, &rows, NULL, <void *>(values + child.offset * dtype.itemsize),
                0, NULL,
            )
            cnp.set_array_base(column, batch)
            made.append(column)
    finally:
        if whole.release != NULL:
            whole.release(&whole)
    return made


def batch_of(columns, schema):
    """A batch of columns, in those of a schema; a column of numpy's holds the values of the type that it says."""
    cdef Py_ssize_t count = len(columns), each
    # One block of memory: where the children are, the batch's only bitmap, the children, and their buffers.
    cdef uint8_t *block = <uint8_t *>PyMem_RawCalloc(
        1, (count + 1) * sizeof(void *) + count * (sizeof(ArrowArray) + 2 * sizeof(void *))
    )
    cdef ArrowArray whole
    cdef ArrowArray *children
    cdef const void **buffers
    cdef cnp.ndarray values
    if block == NULL:
        raise MemoryError
    whole.children = <ArrowArray **>block
    whole.buffers = <const void **>(block + count * sizeof(void *))
    children = <ArrowArray *>(block + (count + 1) * sizeof(void *))
    buffers = <const void **>(children + count)
    whole.length = len(columns[0]) if count else 0
    whole.null_count = whole.offset = 0
    whole.n_buffers = 1
    whole.n_children = 0
    whole.dictionary = NULL
    whole.release = _release_batch
    held = tuple(columns)
    Py_INCREF(held)
    whole.private_data = <void *>held
    try:
        for each in range(count):
            whole.children[each] = children + each
            column = held[each]
            if not isinstance(column, np.ndarray):
                column._export_to_c(<size_t>(children + each))
            else:
                values = column
                if not cnp.PyArray_IS_C_CONTIGUOUS(values):
                    raise TypeError("a column in one piece is needed")
                buffers[2 * each + 1] = cnp.PyArray_DATA(values)
                children[each].length = cnp.PyArray_DIM(values, 0)
                children[each].n_buffers = 2
                children[each].buffers = buffers + 2 * each
                children[each].release = _release_child
            whole.n_children = each + 1
            if children[each].length != whole.length:
                raise ValueError(f"column {each} has {children[each].length} rows, and the first {whole.length}")
        return pa.RecordBatch._import_from_c(<size_t>&whole, schema)
    finally:
        if whole.release != NULL:
            whole.release(&whole)
