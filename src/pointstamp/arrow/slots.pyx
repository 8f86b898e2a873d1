# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A table from hashes to slots, which grows and forgets nothing."""

cimport numpy as cnp
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int64_t, uint8_t, uint64_t

from pointstamp.arrow.common cimport ALONE_ROWS_MAX, data_of, mixed, places_of, rows_of

cnp.import_array()

cdef extern from *:
    """
    #define POINTSTAMP_FETCH(at) __builtin_prefetch(at)
    """
    void POINTSTAMP_FETCH(const void *at) noexcept nogil

cdef enum:
    PLACES_MIN = 64
    AHEAD = 12

ctypedef struct Entry:
    uint64_t hashed
    int64_t slot

ctypedef struct Table:
    Entry *entries
    uint64_t mask
    Py_ssize_t count


cdef bint _allocate(Table *table, Py_ssize_t places) noexcept nogil:
    cdef Py_ssize_t each
    table.entries = <Entry *>PyMem_RawMalloc(places * sizeof(Entry))
    if table.entries == NULL:
        return False
    for each in range(places):
        table.entries[each].slot = -1
    table.mask = <uint64_t>(places - 1)
    return True


cdef bint _enter(Table *table, uint64_t hashed, int64_t slot) noexcept nogil:
    """Enter a slot behind those of the same hash; False if there is no memory."""
    cdef uint64_t at, step = 0
    cdef Py_ssize_t each
    cdef Table larger
    if 2 * (<uint64_t>table.count + 1) > table.mask + 1:
        if not _allocate(&larger, 4 * <Py_ssize_t>(table.mask + 1)):
            return False
        larger.count = 0
        # In the order in which they were found: of those with one hash the first stays the first.
        for each in range(<Py_ssize_t>(table.mask + 1)):
            if table.entries[each].slot >= 0:
                _enter_again(&larger, table.entries[each])
        PyMem_RawFree(table.entries)
        table[0] = larger
    at = hashed & table.mask
    while table.entries[at].slot >= 0:
        step += 1
        at = (at + step) & table.mask
    table.entries[at].hashed = hashed
    table.entries[at].slot = slot
    table.count += 1
    return True


cdef void _enter_again(Table *table, Entry entry) noexcept nogil:
    cdef uint64_t at = entry.hashed & table.mask, step = 0
    while table.entries[at].slot >= 0:
        step += 1
        at = (at + step) & table.mask
    table.entries[at] = entry
    table.count += 1


cdef inline int64_t _find(const Table *table, uint64_t hashed) noexcept nogil:
    cdef uint64_t at = hashed & table.mask, step = 0
    while table.entries[at].slot >= 0:
        if table.entries[at].hashed == hashed:
            return table.entries[at].slot
        step += 1
        at = (at + step) & table.mask
    return -1


cdef void _find_all(
    const Table *table, const uint64_t *hashes, Py_ssize_t rows, bint is_integer, int64_t *out
) noexcept nogil:
    cdef Py_ssize_t row
    cdef uint64_t ahead
    for row in range(rows):
        if row + AHEAD < rows:
            ahead = mixed(hashes[row + AHEAD]) if is_integer else hashes[row + AHEAD]
            POINTSTAMP_FETCH(table.entries + (ahead & table.mask))
        out[row] = _find(table, mixed(hashes[row]) if is_integer else hashes[row])


cdef Py_ssize_t _number_all(
    Table *table, const uint64_t *hashes, Py_ssize_t rows, bint is_integer, const uint8_t *is_there,
    int64_t null_slot, int64_t next_slot, int64_t *out, int64_t *new,
) noexcept nogil:
    """Give each row a slot, and the next one to each hash that is not known; how many these were, or -1."""
    cdef Py_ssize_t row, found = 0
    cdef uint64_t hashed, ahead
    for row in range(rows):
        if row + AHEAD < rows:
            ahead = mixed(hashes[row + AHEAD]) if is_integer else hashes[row + AHEAD]
            POINTSTAMP_FETCH(table.entries + (ahead & table.mask))
        if is_there != NULL and not is_there[row]:
            if null_slot < 0:
                null_slot = next_slot + found
                new[found] = row
                found += 1
            out[row] = null_slot
            continue
        hashed = mixed(hashes[row]) if is_integer else hashes[row]
        out[row] = _find(table, hashed)
        if out[row] < 0:
            out[row] = next_slot + found
            new[found] = row
            found += 1
            if not _enter(table, hashed, out[row]):
                return -1
    return found


cdef class SlotTable:
    """Slots by hash, or by integers, which are hashed by what can be undone: these are never mistaken.

    Invariant: what was entered is found with its slot, and nothing else is. At most half of it is filled.
    """

    cdef Table _table

    def __cinit__(self):
        self._table.count = 0
        if not _allocate(&self._table, PLACES_MIN):
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self._table.entries)

    def find(self, cnp.ndarray words, bint is_integer):
        """The slot of each word, the first one that was entered, or -1."""
        cdef const uint64_t *given = <const uint64_t *>data_of(words, 8)
        cdef Py_ssize_t rows = rows_of(words)
        cdef cnp.ndarray made = places_of(rows)
        cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
        if rows > ALONE_ROWS_MAX:
            with nogil:
                _find_all(&self._table, given, rows, is_integer, out)
        else:
            _find_all(&self._table, given, rows, is_integer, out)
        return made

    def candidates(self, uint64_t hashed):
        """All slots of a hash, in the order in which they were entered."""
        cdef uint64_t at = hashed & self._table.mask, step = 0
        found = []
        while self._table.entries[at].slot >= 0:
            if self._table.entries[at].hashed == hashed:
                found.append(self._table.entries[at].slot)
            step += 1
            at = (at + step) & self._table.mask
        return sorted(found)

    def enter(self, cnp.ndarray hashes, int64_t first):
        """Enter a slot for each hash, known or not: ``first`` and those that follow it."""
        cdef const uint64_t *given = <const uint64_t *>data_of(hashes, 8)
        cdef Py_ssize_t row
        for row in range(rows_of(hashes)):
            if not _enter(&self._table, given[row], first + row):
                raise MemoryError

    def number(self, cnp.ndarray words, bint is_integer, valid, int64_t null_slot, int64_t next_slot):
        """The slot of each word; one that is not known gets the next one. And the rows that got one so.

        ``valid``, if it is not None, says which words are not null; null has a slot of its own, -1 if it has none
        yet.
        """
        cdef const uint64_t *given = <const uint64_t *>data_of(words, 8)
        cdef const uint8_t *is_there = NULL if valid is None else <const uint8_t *>data_of(valid, 1)
        cdef Py_ssize_t rows = rows_of(words), found
        cdef cnp.ndarray made = places_of(rows), new = places_of(rows)
        cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
        cdef int64_t *firsts = <int64_t *>cnp.PyArray_DATA(new)
        if rows > ALONE_ROWS_MAX:
            with nogil:
                found = _number_all(
                    &self._table, given, rows, is_integer, is_there, null_slot, next_slot, out, firsts
                )
        else:
            found = _number_all(
                &self._table, given, rows, is_integer, is_there, null_slot, next_slot, out, firsts
            )
        if found < 0:
            raise MemoryError
        return made, new[:found]
