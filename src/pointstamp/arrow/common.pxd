"""What all kernels share: words, arrays of numpy's, and when a loop lets other threads run."""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

# A loop over fewer rows is over before another thread could use the time, and who gives up the interpreter
# waits up to 5 ms until he has it back.
cdef enum:
    ALONE_ROWS_MAX = 1 << 14


cdef inline uint64_t mixed(uint64_t word) noexcept nogil:
    """Splitmix64 of a word."""
    word = word + <uint64_t>0x9E3779B97F4A7C15
    word = (word ^ (word >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * <uint64_t>0x94D049BB133111EB
    return word ^ (word >> 31)


cdef inline uint64_t unmixed(uint64_t word) noexcept nogil:
    """The word of which this is splitmix64."""
    word = (word ^ (word >> 31) ^ (word >> 62)) * <uint64_t>0x319642B2D24D8EC3
    word = (word ^ (word >> 27) ^ (word >> 54)) * <uint64_t>0x96DE1B173F119089
    return (word ^ (word >> 30) ^ (word >> 60)) - <uint64_t>0x9E3779B97F4A7C15


cdef inline uint64_t word_at(const uint8_t *at) noexcept nogil:
    """Eight bytes as a word, wherever they lie."""
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint64_t part_at(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    """Fewer than eight bytes as a word, filled with zeros."""
    cdef uint64_t word = 0
    cdef Py_ssize_t each
    for each in range(size):
        word |= <uint64_t>at[each] << (8 * each)
    return word


cdef inline bint is_set(const uint8_t *bits, Py_ssize_t at) noexcept nogil:
    """Whether a bit of a bitmap is set."""
    return (bits[at >> 3] >> (at & 7)) & 1


cdef inline cnp.ndarray words_of(Py_ssize_t rows):
    """An array for so many words, with anything in it."""
    cdef cnp.npy_intp shape = rows
    return cnp.PyArray_EMPTY(1, &shape, cnp.NPY_UINT64, 0)


cdef inline cnp.ndarray places_of(Py_ssize_t rows):
    """An array for so many positions or integers, with anything in it."""
    cdef cnp.npy_intp shape = rows
    return cnp.PyArray_EMPTY(1, &shape, cnp.NPY_INT64, 0)


cdef inline void *data_of(cnp.ndarray values, int width) except NULL:
    """Where the values of an array lie, one behind the other, each of so many bytes."""
    if not cnp.PyArray_IS_C_CONTIGUOUS(values) or cnp.PyArray_ITEMSIZE(values) != width:
        raise TypeError(f"values of {width} bytes in one piece are needed, got {(<object>values).__array_interface__}")
    return cnp.PyArray_DATA(values)


cdef inline Py_ssize_t rows_of(cnp.ndarray values) noexcept:
    return cnp.PyArray_DIM(values, 0)
