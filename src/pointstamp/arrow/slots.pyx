# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A table from hashes to slots, which grows and forgets nothing.

Integers that lie close together from 0 on have their slots in an array, as far as more than a quarter of its
places are taken: the table would be no smaller. That is looked at whenever the table is full, as in Lua.
"""

cimport numpy as cnp
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdint cimport int64_t, uint8_t, uint64_t

from pointstamp.arrow.common cimport ALONE_ROWS_MAX, data_of, mixed, places_of, rows_of, unmixed

cnp.import_array()

cdef extern from *:
    """
    #define POINTSTAMP_FETCH(at) __builtin_prefetch(at)
    #define POINTSTAMP_BITS(word) (64 - __builtin_clzll(word))
    """
    void POINTSTAMP_FETCH(const void *at) noexcept nogil
    int POINTSTAMP_BITS(uint64_t word) noexcept nogil

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
    # The slots of integers less than so many, -1 for those that have none; these are not among the entries.
    int64_t *near
    uint64_t near_size
    Py_ssize_t near_count


cdef bint _allocate(Table *table, Py_ssize_t places) noexcept nogil:
    cdef Py_ssize_t each
    table.entries = <Entry *>PyMem_RawMalloc(places * sizeof(Entry))
    if table.entries == NULL:
        return False
    for each in range(places):
        table.entries[each].slot = -1
    table.mask = <uint64_t>(places - 1)
    return True


cdef bint _enter(Table *table, uint64_t word, int64_t slot, bint is_integer) noexcept nogil:
    """Enter a slot behind those of the same hash, or of an integer; False if there is no memory."""
    cdef Entry entry
    if 2 * (<uint64_t>table.count + 1) > table.mask + 1:
        if not _grow(table, is_integer):
            return False
    if is_integer and word < table.near_size:
        table.near[word] = slot
        table.near_count += 1
        return True
    entry.hashed = mixed(word) if is_integer else word
    entry.slot = slot
    _enter_again(table, entry)
    return True


cdef bint _grow(Table *table, bint is_integer) noexcept nogil:
    """Make room for as many again; integers that lie close together go into the array."""
    cdef Py_ssize_t each, places = 4 * <Py_ssize_t>(table.mask + 1)
    cdef Py_ssize_t below[65]
    cdef uint64_t near_size = table.near_size, word
    cdef int64_t *near
    cdef Table larger
    cdef int bits
    if is_integer:
        # How many integers are less than each power of two.
        for bits in range(65):
            below[bits] = 0
        for each in range(<Py_ssize_t>(table.mask + 1)):
            if table.entries[each].slot >= 0:
                below[_bits(unmixed(table.entries[each].hashed))] += 1
        below[0] += table.near_count
        for bits in range(1, 48):
            below[bits] += below[bits - 1]
            if <uint64_t>1 << bits > near_size and 4 * <uint64_t>below[bits] > <uint64_t>1 << bits:
                near_size = <uint64_t>1 << bits
    if near_size > table.near_size:
        near = <int64_t *>PyMem_RawRealloc(table.near, near_size * sizeof(int64_t))
        if near == NULL:
            return False
        for each in range(<Py_ssize_t>table.near_size, <Py_ssize_t>near_size):
            near[each] = -1
        table.near = near
        table.near_size = near_size
        # There is room for a quarter as many as there are, so that this is done for few sizes.
        places = <Py_ssize_t>(table.mask + 1)
        while 4 * places < <Py_ssize_t>near_size:
            places *= 2
    if not _allocate(&larger, places):
        return False
    larger.near, larger.near_size, larger.near_count = table.near, table.near_size, table.near_count
    larger.count = 0
    # In the order in which they were found: of those with one hash the first stays the first.
    for each in range(<Py_ssize_t>(table.mask + 1)):
        if table.entries[each].slot < 0:
            continue
        word = unmixed(table.entries[each].hashed)
        if is_integer and word < larger.near_size:
            larger.near[word] = table.entries[each].slot
            larger.near_count += 1
        else:
            _enter_again(&larger, table.entries[each])
    PyMem_RawFree(table.entries)
    table[0] = larger
    # Where few have gone into the array there may be no room yet.
    return 2 * (<uint64_t>table.count + 1) <= table.mask + 1 or _grow(table, is_integer)


cdef inline int _bits(uint64_t word) noexcept nogil:
    """How many binary digits a number has."""
    return 0 if word == 0 else POINTSTAMP_BITS(word)


cdef void _enter_again(Table *table, Entry entry) noexcept nogil:
    cdef uint64_t at = entry.hashed & table.mask, step = 0
    while table.entries[at].slot >= 0:
        step += 1
        at = (at + step) & table.mask
    table.entries[at] = entry
    table.count += 1


cdef inline int64_t _look(const Table *table, uint64_t hashed) noexcept nogil:
    cdef uint64_t at = hashed & table.mask, step = 0
    while table.entries[at].slot >= 0:
        if table.entries[at].hashed == hashed:
            return table.entries[at].slot
        step += 1
        at = (at + step) & table.mask
    return -1


cdef inline int64_t _find(const Table *table, uint64_t word, bint is_integer) noexcept nogil:
    if is_integer and word < table.near_size:
        return table.near[word]
    return _look(table, mixed(word) if is_integer else word)


cdef inline void _fetch(const Table *table, uint64_t word, bint is_integer) noexcept nogil:
    """Let memory bring what will be asked for."""
    if is_integer and word < table.near_size:
        POINTSTAMP_FETCH(table.near + word)
    else:
        POINTSTAMP_FETCH(table.entries + ((mixed(word) if is_integer else word) & table.mask))


cdef void _find_all(
    const Table *table, const uint64_t *words, Py_ssize_t rows, bint is_integer, int64_t *out
) noexcept nogil:
    if is_integer:
        _find_rows(table, words, rows, True, out)
    else:
        _find_rows(table, words, rows, False, out)


cdef inline void _find_rows(
    const Table *table, const uint64_t *words, Py_ssize_t rows, bint is_integer, int64_t *out
) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(rows):
        if row + AHEAD < rows:
            _fetch(table, words[row + AHEAD], is_integer)
        out[row] = _find(table, words[row], is_integer)


cdef Py_ssize_t _number_all(
    Table *table, const uint64_t *words, Py_ssize_t rows, bint is_integer, const uint8_t *is_there,
    int64_t null_slot, int64_t next_slot, int64_t *out, int64_t *new,
) noexcept nogil:
    """Give each row a slot, and the next one to each word that is not known; how many these were, or -1."""
    if is_integer:
        return _number_rows(table, words, rows, True, is_there, null_slot, next_slot, out, new)
    return _number_rows(table, words, rows, False, is_there, null_slot, next_slot, out, new)


cdef inline Py_ssize_t _number_rows(
    Table *changed, const uint64_t *words, Py_ssize_t rows, bint is_integer, const uint8_t *is_there,
    int64_t null_slot, int64_t next_slot, int64_t *out, int64_t *new,
) noexcept nogil:
    # Written out, not by _find and _fetch, which gcc would call: 1 M keys far apart take half as long again.
    cdef Py_ssize_t row, found = 0
    cdef Table table = changed[0]  # a copy, which stores to arrays cannot change
    cdef uint64_t word, hashed
    cdef int64_t slot
    for row in range(rows):
        if row + AHEAD < rows:
            if is_integer and words[row + AHEAD] < table.near_size:
                POINTSTAMP_FETCH(table.near + words[row + AHEAD])
            else:
                hashed = mixed(words[row + AHEAD]) if is_integer else words[row + AHEAD]
                POINTSTAMP_FETCH(table.entries + (hashed & table.mask))
        if is_there != NULL and not is_there[row]:
            if null_slot < 0:
                null_slot = next_slot + found
                new[found] = row
                found += 1
            out[row] = null_slot
            continue
        word = words[row]
        if is_integer and word < table.near_size:
            slot = table.near[word]
        else:
            hashed = mixed(word) if is_integer else word
            slot = _look(&table, hashed)
        out[row] = slot
        if slot < 0:
            out[row] = next_slot + found
            new[found] = row
            found += 1
            if not _enter(changed, words[row], out[row], is_integer):
                return -1
            table = changed[0]
    return found


cdef class SlotTable:
    """Slots by hash, or by integers, which are hashed by what can be undone: these are never mistaken.

    Invariant: what was entered is found with its slot, and nothing else is. At most half of it is filled.
    """

    cdef Table _table

    def __cinit__(self):
        self._table.count = self._table.near_count = 0
        self._table.near = NULL
        self._table.near_size = 0
        if not _allocate(&self._table, PLACES_MIN):
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self._table.entries)
        PyMem_RawFree(self._table.near)

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
            if not _enter(&self._table, given[row], first + row, False):
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
