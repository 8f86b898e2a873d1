# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Numbers as limbs of 24 bits, whose weighted sums are exact: see pointstamp.incremental.exact_sums."""

cimport numpy as cnp
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from pointstamp.arrow.common cimport data_of, places_of, rows_of

cnp.import_array()

cdef enum:
    LIMB_BITS = 24
    LIMBS_MAX = 6

cdef int64_t LOW = (1 << 24) - 1

ctypedef fused Stored:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef void _limbs(const Stored *values, const int64_t *weights, Py_ssize_t rows, int count, int64_t **out) noexcept nogil:
    # Products as words, where what is beyond 64 bits is left out and never undefined.
    cdef Py_ssize_t row
    cdef int each
    cdef Stored rest
    for row in range(rows):
        rest = values[row]
        for each in range(count - 1):
            out[each][row] = <int64_t>(<uint64_t>(rest & LOW) * <uint64_t>weights[row])
            rest = rest >> LIMB_BITS
        out[count - 1][row] = <int64_t>(<uint64_t><int64_t>rest * <uint64_t>weights[row])


cdef void _wide_limbs(const uint64_t *words, const int64_t *weights, Py_ssize_t rows, int64_t **out) noexcept nogil:
    cdef Py_ssize_t row
    cdef int each
    cdef uint64_t low
    cdef int64_t high
    cdef int64_t limbs[LIMBS_MAX]
    for row in range(rows):
        low, high = words[2 * row], <int64_t>words[2 * row + 1]
        limbs[0] = <int64_t>(low & LOW)
        limbs[1] = <int64_t>((low >> 24) & LOW)
        limbs[2] = <int64_t>(low >> 48) | ((high & 0xFF) << 16)
        limbs[3] = (high >> 8) & LOW
        limbs[4] = (high >> 32) & LOW
        limbs[5] = high >> 56
        for each in range(LIMBS_MAX):
            out[each][row] = <int64_t>(<uint64_t>limbs[each] * <uint64_t>weights[row])


def limbs_of(cnp.ndarray values, cnp.ndarray weights, int count):
    """The limbs of integers or decimals of 128 bits, the lowest first, times a weight for each value."""
    cdef Py_ssize_t rows = rows_of(values)
    cdef int width = <int>cnp.PyArray_ITEMSIZE(values), each
    cdef void *at = data_of(values, width)
    cdef const int64_t *of = <const int64_t *>data_of(weights, 8)
    cdef bint is_unsigned = cnp.PyArray_ISUNSIGNED(values)
    cdef int64_t *out[LIMBS_MAX]
    assert rows_of(weights) == rows and 0 < count <= LIMBS_MAX
    made = [places_of(rows) for _ in range(count)]
    for each in range(count):
        out[each] = <int64_t *>cnp.PyArray_DATA(<cnp.ndarray>made[each])
    with nogil:
        if width == 16:
            _wide_limbs(<const uint64_t *>at, of, rows, out)
        elif width == 8:
            if is_unsigned:
                _limbs(<const uint64_t *>at, of, rows, count, out)
            else:
                _limbs(<const int64_t *>at, of, rows, count, out)
        elif width == 4:
            if is_unsigned:
                _limbs(<const uint32_t *>at, of, rows, count, out)
            else:
                _limbs(<const int32_t *>at, of, rows, count, out)
        elif width == 2:
            if is_unsigned:
                _limbs(<const uint16_t *>at, of, rows, count, out)
            else:
                _limbs(<const int16_t *>at, of, rows, count, out)
        elif is_unsigned:
            _limbs(<const uint8_t *>at, of, rows, count, out)
        else:
            _limbs(<const int8_t *>at, of, rows, count, out)
    return made


def whole_numbers(list sums):
    """Sums of limbs put together as integers of 64 bits, and the first row whose sum does not fit, or -1."""
    cdef int count = <int>len(sums), each, shift = LIMB_BITS * (count - 1)
    cdef Py_ssize_t rows = rows_of(sums[0]), row, too_large = -1
    cdef const int64_t *limbs[LIMBS_MAX]
    cdef cnp.ndarray made = places_of(rows)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    cdef int64_t most = (<int64_t>1 << (63 - shift)) if 0 < shift < 63 else 1, carry
    cdef uint64_t total
    assert 0 < count <= LIMBS_MAX
    for each in range(count):
        limbs[each] = <const int64_t *>data_of(sums[each], 8)
    with nogil:
        for row in range(rows):
            carry, total = limbs[0][row], 0
            for each in range(1, count):
                total |= <uint64_t>(carry & LOW) << (LIMB_BITS * (each - 1))
                carry = limbs[each][row] + (carry >> LIMB_BITS)
            out[row] = <int64_t>(total + (<uint64_t>carry << (shift if shift < 63 else 63)))
            if too_large < 0 and shift > 0 and not -most <= carry < most:
                too_large = row
    return made, too_large


def extent(cnp.ndarray values):
    """The least and the greatest of some integers; 0 and 0 without any."""
    cdef const int64_t *at = <const int64_t *>data_of(values, 8)
    cdef Py_ssize_t rows = rows_of(values), row
    cdef int64_t least = at[0] if rows else 0, most = least
    for row in range(1, rows):
        if at[row] < least:
            least = at[row]
        if at[row] > most:
            most = at[row]
    return least, most
