# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The published hash of values: see pointstamp.arrow.row_hashing, which says what each of these gives."""

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from pointstamp.arrow.common cimport (
    ALONE_ROWS_MAX, data_of, is_set, mixed, part_at, places_of, rows_of, unmixed as unmixed_word, word_at, words_of,
)

cnp.import_array()

ctypedef fused Stored:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t

cdef uint64_t NAN_BITS = 0x7FF8000000000000


def mix(cnp.ndarray words):
    """Splitmix64 of every word, in place."""
    cdef uint64_t *at = <uint64_t *>data_of(words, 8)
    cdef Py_ssize_t rows = rows_of(words)
    if rows > ALONE_ROWS_MAX:
        with nogil:
            _mix(at, at, rows)
    else:
        _mix(at, at, rows)
    return words


cdef void _mix(const uint64_t *words, uint64_t *out, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(rows):
        out[row] = mixed(words[row])


def unmixed(cnp.ndarray words):
    """The integers of which these are splitmix64."""
    cdef const uint64_t *at = <const uint64_t *>data_of(words, 8)
    cdef Py_ssize_t rows = rows_of(words), row
    cdef cnp.npy_intp shape = rows
    cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &shape, cnp.NPY_INT64, 0)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(found)
    for row in range(rows):
        out[row] = unmixed_word(at[row])
    return found


cdef void _integers(const Stored *values, uint64_t *out, Py_ssize_t rows) noexcept nogil:
    # By way of 64 bits with a sign, so that a negative value has its sign in all of them.
    cdef Py_ssize_t row
    for row in range(rows):
        out[row] = mixed(<uint64_t><int64_t>values[row])


cdef void _sized(size_t at, uint64_t *out, Py_ssize_t rows, int width, bint is_signed) noexcept nogil:
    if width == 8:
        _integers[int64_t](<const int64_t *>at, out, rows)
    elif width == 4:
        if is_signed:
            _integers[int32_t](<const int32_t *>at, out, rows)
        else:
            _integers[uint32_t](<const uint32_t *>at, out, rows)
    elif width == 2:
        if is_signed:
            _integers[int16_t](<const int16_t *>at, out, rows)
        else:
            _integers[uint16_t](<const uint16_t *>at, out, rows)
    elif is_signed:
        _integers[int8_t](<const int8_t *>at, out, rows)
    else:
        _integers[uint8_t](<const uint8_t *>at, out, rows)


def hash_integers(size_t address, Py_ssize_t offset, Py_ssize_t rows, int width, bint is_signed):
    """The hashes of integers of a width in bytes."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef size_t at = address + <size_t>(offset * width)
    if rows > ALONE_ROWS_MAX:
        with nogil:
            _sized(at, out, rows, width, is_signed)
    else:
        _sized(at, out, rows, width, is_signed)
    return made


cdef inline uint64_t _float_bits(double value) noexcept nogil:
    cdef uint64_t bits
    if value != value:
        return NAN_BITS
    value = value + 0.0  # -0.0 + 0.0 is 0.0
    return word_at(<const uint8_t *>&value)


cdef void _floats(size_t address, uint64_t *out, Py_ssize_t rows, int width) noexcept nogil:
    cdef Py_ssize_t row
    if width == 8:
        for row in range(rows):
            out[row] = mixed(_float_bits((<const double *>address)[row]))
    else:
        for row in range(rows):
            out[row] = mixed(_float_bits((<const float *>address)[row]))


def hash_floats(size_t address, Py_ssize_t offset, Py_ssize_t rows, int width):
    """The hashes of floats of 4 or 8 bytes."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef size_t at = address + <size_t>(offset * width)
    if rows > ALONE_ROWS_MAX:
        with nogil:
            _floats(at, out, rows, width)
    else:
        _floats(at, out, rows, width)
    return made


def hash_bits(size_t address, Py_ssize_t offset, Py_ssize_t rows):
    """The hashes of booleans."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef uint64_t of_false = mixed(0), of_true = mixed(1)
    cdef Py_ssize_t row
    for row in range(rows):
        out[row] = of_true if is_set(<const uint8_t *>address, offset + row) else of_false
    return made


def hash_decimals(size_t address, Py_ssize_t offset, Py_ssize_t rows, int words, uint64_t base, bint is_first):
    """The hashes of decimals of so many words; ``is_first`` if a negative one is hashed by its complement."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef const uint64_t *at = <const uint64_t *>address + offset * words
    cdef Py_ssize_t row
    cdef int each
    cdef uint64_t total, power, sign
    for row in range(rows):
        sign = <uint64_t>((<int64_t>at[words - 1]) >> 63) if is_first else 0
        total, power = at[0], base
        for each in range(1, words):
            total += (at[each] ^ sign) * power
            power *= base
        out[row] = mixed(total)
        at += words
    return made


def hash_values(cnp.ndarray values, uint64_t base, bint is_first):
    """The hashes of integers, dates and times, floats and decimals, as numpy holds them."""
    cdef Py_ssize_t rows = rows_of(values)
    cdef int width = <int>cnp.PyArray_ITEMSIZE(values)
    cdef size_t at = <size_t>data_of(values, width)
    if cnp.PyArray_ISINTEGER(values):
        return hash_integers(at, 0, rows, width, not cnp.PyArray_ISUNSIGNED(values) or width == 8)
    if cnp.PyArray_ISFLOAT(values):
        if width == 2:
            with np.errstate(invalid="ignore"):
                values = values.astype(np.float64)
            return hash_floats(<size_t>data_of(values, 8), 0, rows, 8)
        return hash_floats(at, 0, rows, width)
    if width == 4:  # a decimal of 32 bits
        return hash_integers(at, 0, rows, 4, True)
    return hash_decimals(at, 0, rows, width // 8, base, is_first)


cdef inline uint64_t _bytes_hash(const uint8_t *at, Py_ssize_t size, uint64_t base) noexcept nogil:
    cdef uint64_t total = <uint64_t>size, power = 1
    while size >= 8:
        total += mixed(word_at(at)) * power
        power *= base
        at += 8
        size -= 8
    if size > 0:
        total += mixed(part_at(at, size)) * power
    return mixed(total)


cdef void _texts(
    size_t offsets, size_t data, uint64_t *out, Py_ssize_t rows, int width, uint64_t base
) noexcept nogil:
    cdef Py_ssize_t row
    cdef const int32_t *narrow = <const int32_t *>offsets
    cdef const int64_t *wide = <const int64_t *>offsets
    cdef const uint8_t *values = <const uint8_t *>data
    if width == 4:
        for row in range(rows):
            out[row] = _bytes_hash(values + narrow[row], narrow[row + 1] - narrow[row], base)
    else:
        for row in range(rows):
            out[row] = _bytes_hash(values + wide[row], wide[row + 1] - wide[row], base)


def hash_texts(size_t offsets, size_t data, Py_ssize_t offset, Py_ssize_t rows, int width, uint64_t base):
    """The hashes of texts or bytes whose offsets have so many bytes each."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef size_t at = offsets + <size_t>(offset * width)
    if rows > ALONE_ROWS_MAX:
        with nogil:
            _texts(at, data, out, rows, width, base)
    else:
        _texts(at, data, out, rows, width, base)
    return made


def hash_fixed(size_t data, Py_ssize_t offset, Py_ssize_t rows, Py_ssize_t width, uint64_t base):
    """The hashes of bytes of one width."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef const uint8_t *values = <const uint8_t *>data + offset * width
    cdef Py_ssize_t row
    for row in range(rows):
        out[row] = _bytes_hash(values + row * width, width, base)
    return made


def set_nulls(cnp.ndarray hashes, size_t validity, Py_ssize_t offset, uint64_t null):
    """Give the hash of a null to each value that is one."""
    cdef uint64_t *out = <uint64_t *>data_of(hashes, 8)
    cdef Py_ssize_t row
    for row in range(rows_of(hashes)):
        if not is_set(<const uint8_t *>validity, offset + row):
            out[row] = null


cdef void _add_field(uint64_t *sums, const uint64_t *hashes, uint64_t power, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(rows):
        sums[row] += hashes[row] * power


def fold_fields(fields, Py_ssize_t rows, uint64_t base):
    """One hash per row, folded from those of its fields."""
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef uint64_t *theirs
    cdef uint64_t power = 1, count = len(fields)
    cdef Py_ssize_t row
    for row in range(rows):
        out[row] = count
    for hashes in fields:
        theirs = <uint64_t *>data_of(hashes, 8)
        assert rows_of(hashes) == rows
        _add_field(out, theirs, power, rows)
        power *= base
    _mix(out, out, rows)
    return made


def fold_runs(cnp.ndarray hashes, cnp.ndarray counts, uint64_t base):
    """One hash per row, folded from ``counts[row]`` consecutive ones."""
    cdef const uint64_t *at = <const uint64_t *>data_of(hashes, 8)
    cdef const int64_t *sizes = <const int64_t *>data_of(counts, 8)
    cdef Py_ssize_t rows = rows_of(counts), row, each
    cdef cnp.ndarray made = words_of(rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    cdef uint64_t total, power
    for row in range(rows):
        total, power = <uint64_t>sizes[row], 1
        for each in range(sizes[row]):
            total += at[each] * power
            power *= base
        at += sizes[row]
        out[row] = mixed(total)
    return made


def workers_of(cnp.ndarray hashes, uint64_t workers):
    """The high 32 bits of each hash, scaled down to the numbers of so many workers."""
    cdef const uint64_t *at = <const uint64_t *>data_of(hashes, 8)
    cdef Py_ssize_t rows = rows_of(hashes), row
    cdef cnp.ndarray made = places_of(rows)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    with nogil:
        for row in range(rows):
            out[row] = <int64_t>(((at[row] >> 32) * workers) >> 32)
    return made
