# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows taken out of columns and put behind each other, and rows compared, without arrays in between.

A column is an array of numpy's, whose values have one width and are never null, or one of Arrow's. Arrays of
Arrow's with values of one width, booleans, texts and bytes are worked on here, slices and nulls included; for
all other types the functions answer None, and Arrow's own functions do it.
"""

import numpy as np
import pyarrow as pa

cimport numpy as cnp
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from pointstamp.arrow.common cimport ALONE_ROWS_MAX, data_of, is_set, places_of, rows_of, words_of

cnp.import_array()

cdef enum Kind:
    FIXED
    BITS
    NARROW
    WIDE

ctypedef struct View:
    Kind kind
    int width
    # 'f' with width 2, 4 or 8: values of which a NaN equals every NaN.
    bint is_float
    Py_ssize_t rows
    # Of values of a fixed width the first one; of bits the whole bitmap; of texts all their bytes.
    const uint8_t *values
    const uint8_t *offsets
    # Where the first row stands in the bitmaps.
    Py_ssize_t bit
    const uint8_t *validity

cdef dict _WIDTHS = {
    pa.lib.Type_INT8: (FIXED, 1, False), pa.lib.Type_UINT8: (FIXED, 1, False),
    pa.lib.Type_INT16: (FIXED, 2, False), pa.lib.Type_UINT16: (FIXED, 2, False),
    pa.lib.Type_INT32: (FIXED, 4, False), pa.lib.Type_UINT32: (FIXED, 4, False),
    pa.lib.Type_INT64: (FIXED, 8, False), pa.lib.Type_UINT64: (FIXED, 8, False),
    pa.lib.Type_DATE32: (FIXED, 4, False), pa.lib.Type_DATE64: (FIXED, 8, False),
    pa.lib.Type_TIME32: (FIXED, 4, False), pa.lib.Type_TIME64: (FIXED, 8, False),
    pa.lib.Type_TIMESTAMP: (FIXED, 8, False), pa.lib.Type_DURATION: (FIXED, 8, False),
    pa.lib.Type_HALF_FLOAT: (FIXED, 2, True), pa.lib.Type_FLOAT: (FIXED, 4, True),
    pa.lib.Type_DOUBLE: (FIXED, 8, True),
    pa.lib.Type_DECIMAL128: (FIXED, 16, False), pa.lib.Type_DECIMAL256: (FIXED, 32, False),
    pa.lib.Type_BOOL: (BITS, 0, False),
    pa.lib.Type_STRING: (NARROW, 4, False), pa.lib.Type_BINARY: (NARROW, 4, False),
    pa.lib.Type_LARGE_STRING: (WIDE, 8, False), pa.lib.Type_LARGE_BINARY: (WIDE, 8, False),
}
for _name, _width in (("Type_DECIMAL32", 4), ("Type_DECIMAL64", 8)):
    if hasattr(pa.lib, _name):  # older versions of pyarrow have no narrow decimals
        _WIDTHS[getattr(pa.lib, _name)] = (FIXED, _width, False)



cdef inline const uint8_t *_address(object buffer) except? NULL:
    return NULL if buffer is None else <const uint8_t *><size_t>buffer.address


cdef int _view(object column, View *out) except -1:
    """Look at a column; 0 if its type is not worked on here."""
    cdef cnp.ndarray values
    cdef Py_ssize_t offset
    if isinstance(column, np.ndarray):
        values = column
        if not cnp.PyArray_IS_C_CONTIGUOUS(values):
            raise TypeError("a column in one piece is needed")
        out.kind = FIXED
        out.width = <int>cnp.PyArray_ITEMSIZE(values)
        out.is_float = cnp.PyArray_ISFLOAT(values)
        out.rows = rows_of(values)
        out.values = <const uint8_t *>cnp.PyArray_DATA(values)
        out.validity = NULL
        out.bit = 0
        return 1
    found = _WIDTHS.get(column.type.id)
    if found is None:
        return 0
    out.kind, out.width, out.is_float = found
    out.rows = len(column)
    offset = column.offset
    buffers = column.buffers()
    out.validity = NULL if not column.null_count else _address(buffers[0])
    out.bit = offset
    if out.kind == FIXED:
        out.values = _address(buffers[1])
        if out.values == NULL:
            return 1 if out.rows == 0 else 0
        out.values += offset * out.width
    elif out.kind == BITS:
        out.values = _address(buffers[1])
        if out.values == NULL:
            return 1 if out.rows == 0 else 0
    else:
        out.offsets = _address(buffers[1])
        out.values = _address(buffers[2])
        if out.offsets == NULL:
            return 1 if out.rows == 0 else 0
        out.offsets += offset * out.width
    return 1


cdef inline int64_t _begin(const View *view, Py_ssize_t row) noexcept nogil:
    if view.kind == NARROW:
        return (<const int32_t *>view.offsets)[row]
    return (<const int64_t *>view.offsets)[row]


# Taking rows.

cdef void _take_fixed(
    const uint8_t *values, int width, const int64_t *at, Py_ssize_t rows, uint8_t *out
) noexcept nogil:
    cdef Py_ssize_t row
    if width == 8:
        for row in range(rows):
            (<uint64_t *>out)[row] = (<const uint64_t *>values)[at[row]]
    elif width == 4:
        for row in range(rows):
            (<int32_t *>out)[row] = (<const int32_t *>values)[at[row]]
    elif width == 16:
        for row in range(rows):
            memcpy(out + 16 * row, values + 16 * at[row], 16)
    else:
        for row in range(rows):
            memcpy(out + width * row, values + width * at[row], width)


cdef Py_ssize_t _take_bits(
    const uint8_t *bits, Py_ssize_t first, const int64_t *at, Py_ssize_t rows, uint8_t *out, Py_ssize_t begin
) noexcept nogil:
    """Set the bits of some rows, from ``begin`` on, in a bitmap of zeros; how many are not set."""
    cdef Py_ssize_t row, unset = 0
    for row in range(rows):
        if bits == NULL or is_set(bits, first + at[row]):
            out[(begin + row) >> 3] |= <uint8_t>(1 << ((begin + row) & 7))
        else:
            unset += 1
    return unset


cdef int64_t _text_bytes(const View *view, const int64_t *at, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t row
    cdef int64_t total = 0
    for row in range(rows):
        total += _begin(view, at[row] + 1) - _begin(view, at[row])
    return total


cdef int64_t _take_texts(
    const View *view, const int64_t *at, Py_ssize_t rows, uint8_t *offsets, uint8_t *data, int64_t end
) noexcept nogil:
    """Put texts behind those that end at ``end``; where the last one ends."""
    cdef Py_ssize_t row
    cdef int64_t begin, size
    for row in range(rows):
        begin = _begin(view, at[row])
        size = _begin(view, at[row] + 1) - begin
        if size > 0:
            memcpy(data + end, view.values + begin, size)
            end += size
        if view.kind == NARROW:
            (<int32_t *>offsets)[row + 1] = <int32_t>end
        else:
            (<int64_t *>offsets)[row + 1] = end
    return end


cdef cnp.ndarray _like(cnp.ndarray values, cnp.npy_intp rows):
    """An array for so many values of the same type."""
    if cnp.PyArray_ISNUMBER(values):
        return cnp.PyArray_EMPTY(1, &rows, cnp.PyArray_TYPE(values), 0)
    return np.empty(rows, values.dtype)


def taken(column, cnp.ndarray at):
    """Some values of a column, or all in another order; None of a type that is not worked on here."""
    cdef cnp.ndarray values, made
    cdef cnp.npy_intp rows
    cdef int width
    cdef const uint8_t *first
    cdef uint8_t *out
    cdef const int64_t *places
    if not isinstance(column, np.ndarray):
        return taken_together([(column, at)], column.type)
    values = column
    width = <int>cnp.PyArray_ITEMSIZE(values)
    rows = rows_of(at)
    first = <const uint8_t *>data_of(values, width)
    places = <const int64_t *>data_of(at, 8)
    made = _like(values, rows)
    out = <uint8_t *>cnp.PyArray_DATA(made)
    if rows > ALONE_ROWS_MAX:
        with nogil:
            _take_fixed(first, width, places, rows, out)
    else:
        _take_fixed(first, width, places, rows, out)
    return made


cdef cnp.ndarray _bitmap(Py_ssize_t rows):
    cdef cnp.npy_intp size = (rows + 7) // 8
    return cnp.PyArray_ZEROS(1, &size, cnp.NPY_UINT8, 0)


cdef cnp.ndarray _bytes(Py_ssize_t size):
    cdef cnp.npy_intp shape = size
    return cnp.PyArray_EMPTY(1, &shape, cnp.NPY_UINT8, 0)


def taken_together(parts, kind):
    """Values of several columns of one type, given with their positions, one behind the other.

    An array of numpy's if all columns are, else one of Arrow's of this type; None of a type that is not worked
    on here, or of texts that are more than one array can hold.
    """
    cdef Py_ssize_t rows = 0, each, nulls = 0, begin, count
    cdef View view
    cdef View first
    cdef bint is_numpy = True, has_nulls = False
    cdef int64_t size = 0
    cdef cnp.ndarray at
    cdef cnp.ndarray made, offsets
    cdef uint8_t *out
    cdef uint8_t *ends
    cdef uint8_t *bits
    cdef const int64_t *places
    for column, positions in parts:
        if not _view(column, &first):
            return None
        rows += rows_of(positions)
        if not isinstance(column, np.ndarray):
            is_numpy = False
        has_nulls = has_nulls or first.validity != NULL
        if first.kind == NARROW or first.kind == WIDE:
            size += _text_bytes(&first, <const int64_t *>data_of(positions, 8), rows_of(positions))
    if first.kind == NARROW and size > 0x7FFFFFFF:
        return None
    validity = None
    if has_nulls:
        validity = _bitmap(rows)
        bits = <uint8_t *>cnp.PyArray_DATA(validity)
    if first.kind == FIXED:
        made = _like(parts[0][0], rows) if is_numpy else _bytes(rows * first.width)
        ends = NULL
    elif first.kind == BITS:
        made = _bitmap(rows)
        ends = NULL
    else:
        made = _bytes(size)
        offsets = _bytes((rows + 1) * first.width)
        ends = <uint8_t *>cnp.PyArray_DATA(offsets)
        memset(ends, 0, first.width)
    out = <uint8_t *>cnp.PyArray_DATA(made)
    begin, size = 0, 0
    for column, positions in parts:
        _view(column, &view)
        at = positions
        count = rows_of(at)
        places = <const int64_t *>data_of(at, 8)
        if count > ALONE_ROWS_MAX:
            with nogil:
                size = _take(&view, places, count, out, ends, begin, size)
        else:
            size = _take(&view, places, count, out, ends, begin, size)
        if has_nulls:
            nulls += _take_bits(view.validity, view.bit, places, count, bits, begin)
        begin += count
    if is_numpy:
        return made
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(made)]
    if ends != NULL:
        buffers.insert(1, pa.py_buffer(offsets))
    return pa.Array.from_buffers(kind, rows, buffers, nulls)


cdef int64_t _take(
    const View *view, const int64_t *at, Py_ssize_t rows, uint8_t *out, uint8_t *ends, Py_ssize_t begin, int64_t size
) noexcept nogil:
    if view.kind == FIXED:
        _take_fixed(view.values, view.width, at, rows, out + begin * view.width)
    elif view.kind == BITS:
        _take_bits(view.values, view.bit, at, rows, out, begin)
    elif rows:
        return _take_texts(view, at, rows, ends + begin * view.width, out, size)
    return size


cdef int64_t _gather(
    const View *views, const int64_t *part_of, const int64_t *at, Py_ssize_t rows, int64_t bound,
    uint8_t *out, uint8_t *ends, uint8_t *bits, Py_ssize_t *nulls,
) noexcept nogil:
    """Take rows of several columns: each from the part that is named, or from the second from a bound on."""
    cdef Py_ssize_t row
    cdef int64_t place, end = 0
    cdef int width = views[0].width
    cdef const View *view
    for row in range(rows):
        place = at[row]
        if part_of != NULL:
            view = views + part_of[row]
        elif place < bound:
            view = views
        else:
            view = views + 1
            place -= bound
        if view.kind == FIXED:
            if width == 8:
                (<uint64_t *>out)[row] = (<const uint64_t *>view.values)[place]
            else:
                memcpy(out + width * row, view.values + width * place, width)
        elif view.kind == BITS:
            _take_bits(view.values, view.bit, &place, 1, out, row)
        else:
            end = _take_texts(view, &place, 1, ends + row * width, out, end)
        if bits != NULL:
            nulls[0] += _take_bits(view.validity, view.bit, &place, 1, bits, row)
    return end


cdef object _gathered(parts, part_of, cnp.ndarray at, kind):
    """Some values of columns of a type; None of a type that is not worked on here, or of too many bytes.

    ``part_of`` says in which column each stands; without it positions in the second count on from the first.
    """
    cdef Py_ssize_t rows = rows_of(at), nulls = 0, each, count = len(parts)
    cdef const int64_t *places = <const int64_t *>data_of(at, 8)
    cdef const int64_t *which = NULL if part_of is None else <const int64_t *>data_of(part_of, 8)
    cdef bint is_numpy = True, has_nulls = False
    cdef int64_t size = 0, place, bound
    cdef cnp.ndarray made, offsets
    cdef uint8_t *ends = NULL
    cdef uint8_t *bits = NULL
    cdef uint8_t *out
    cdef View *views = <View *>PyMem_RawMalloc(count * sizeof(View))
    cdef const View *view
    if views == NULL:
        raise MemoryError
    try:
        for each in range(count):
            if not _view(parts[each], views + each):
                return None
            assert views[each].kind == views[0].kind and views[each].width == views[0].width
            is_numpy = is_numpy and isinstance(parts[each], np.ndarray)
            has_nulls = has_nulls or views[each].validity != NULL
        bound = views[0].rows
        validity = None
        if has_nulls:
            validity = _bitmap(rows)
            bits = <uint8_t *>cnp.PyArray_DATA(validity)
        if views[0].kind == FIXED:
            made = _like(parts[0], rows) if is_numpy else _bytes(rows * views[0].width)
        elif views[0].kind == BITS:
            made = _bitmap(rows)
        else:
            for each in range(rows):
                place = places[each]
                if which != NULL:
                    view = views + which[each]
                elif place < bound:
                    view = views
                else:
                    view = views + 1
                    place -= bound
                size += _begin(view, place + 1) - _begin(view, place)
            if views[0].kind == NARROW and size > 0x7FFFFFFF:
                return None
            made = _bytes(size)
            offsets = _bytes((rows + 1) * views[0].width)
            ends = <uint8_t *>cnp.PyArray_DATA(offsets)
            memset(ends, 0, views[0].width)
        out = <uint8_t *>cnp.PyArray_DATA(made)
        if rows > ALONE_ROWS_MAX:
            with nogil:
                _gather(views, which, places, rows, bound, out, ends, bits, &nulls)
        else:
            _gather(views, which, places, rows, bound, out, ends, bits, &nulls)
    finally:
        PyMem_RawFree(views)
    if is_numpy:
        return made
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(made)]
    if ends != NULL:
        buffers.insert(1, pa.py_buffer(offsets))
    return pa.Array.from_buffers(kind, rows, buffers, nulls)


def merged_columns(ones, others, cnp.ndarray at, kinds):
    """Some rows of two tables with the same columns; positions in the second one count on from the first.

    None for a column of a type that is not worked on here, or of texts that are more than one array can hold.
    """
    return [_gathered((ones[each], others[each]), None, at, kinds[each]) for each in range(len(ones))]


def gathered(parts, cnp.ndarray part_of, cnp.ndarray at, kinds):
    """Some rows of tables with the same columns, of which the first is there: in which one each stands, and where.

    None for a column of a type that is not worked on here, or of texts that are more than one array can hold.
    """
    return [
        _gathered([part[each] for part in parts], part_of, at, kinds[each]) for each in range(len(kinds))
    ]


# Prefixes: 64 bits of each value, in the order of the values.

cdef enum:
    SIGNED
    UNSIGNED
    FLOATING
    TEXTUAL

cdef uint64_t _SIGN = <uint64_t>1 << 63


cdef inline uint64_t _sized_word(const uint8_t *at, int width) noexcept nogil:
    """An integer of so many bytes as it lies, with zeros above it."""
    if width == 8:
        return (<const uint64_t *>at)[0]
    if width == 4:
        return (<const uint32_t *>at)[0]
    return (<const uint16_t *>at)[0] if width == 2 else at[0]


cdef inline uint64_t _prefix(const View *view, int form, Py_ssize_t row) noexcept nogil:
    cdef const uint8_t *at
    cdef uint64_t word
    cdef double number
    cdef int64_t begin, size
    cdef int each
    if view.kind == BITS:
        return _SIGN | is_set(view.values, view.bit + row)
    if view.kind != FIXED:
        begin = _begin(view, row)
        size = _begin(view, row + 1) - begin
        word = 0
        for each in range(<int>(size if size < 8 else 8)):
            word |= <uint64_t>view.values[begin + each] << (56 - 8 * each)
        return word
    at = view.values + row * view.width
    if form == FLOATING:
        number = (<const double *>at)[0] if view.width == 8 else <double>(<const float *>at)[0]
        if number != number:  # every NaN is the same, and the greatest
            return <uint64_t>0x7FF8000000000000 | _SIGN
        number = number + 0.0  # -0.0 is 0.0
        memcpy(&word, &number, 8)
        return ~word if word >> 63 else word | _SIGN
    word = _sized_word(at, view.width)
    if form == UNSIGNED:
        return word if view.width == 8 else word | _SIGN
    # The sign of a narrow value goes into all bits above it.
    return <uint64_t>((<int64_t>(word << (64 - 8 * view.width))) >> (64 - 8 * view.width)) ^ _SIGN


def prefixes(column, int form, bint descends, bint nulls_last):
    """The prefix of each value: integers, floats of 4 or 8 bytes, booleans, or the first bytes of texts."""
    cdef View view
    cdef uint64_t of_null = <uint64_t>-1 if nulls_last else 0, turned = <uint64_t>-1 if descends else 0
    cdef Py_ssize_t row
    assert _view(column, &view)
    cdef cnp.ndarray made = words_of(view.rows)
    cdef uint64_t *out = <uint64_t *>cnp.PyArray_DATA(made)
    with nogil:
        for row in range(view.rows):
            if view.validity != NULL and not is_set(view.validity, view.bit + row):
                out[row] = of_null
            else:
                out[row] = _prefix(&view, form, row) ^ turned
    return made


# Comparing rows.

cdef inline bint _is_nan(const uint8_t *at, int width) noexcept nogil:
    cdef double wide
    cdef float narrow
    cdef uint64_t half = 0
    if width == 8:
        memcpy(&wide, at, 8)
        return wide != wide
    if width == 4:
        memcpy(&narrow, at, 4)
        return narrow != narrow
    memcpy(&half, at, 2)
    return (half & 0x7FFF) > 0x7C00


cdef inline bint _is_zero(const uint8_t *at, int width) noexcept nogil:
    """Whether a float is zero, of whatever sign."""
    cdef uint64_t bits = 0
    memcpy(&bits, at, width)
    return (bits << (64 - 8 * width + 1)) == 0


cdef inline bint _same(const View *one, Py_ssize_t this, const View *other, Py_ssize_t that) noexcept nogil:
    cdef bint is_there = one.validity == NULL or is_set(one.validity, one.bit + this)
    cdef const uint8_t *a
    cdef const uint8_t *b
    cdef int64_t begin, start, size
    if is_there != (other.validity == NULL or is_set(other.validity, other.bit + that)):
        return False
    if not is_there:
        return True
    if one.kind == FIXED:
        a = one.values + one.width * this
        b = other.values + one.width * that
        if one.width == 8:
            if (<const uint64_t *>a)[0] == (<const uint64_t *>b)[0]:
                return True
        elif memcmp(a, b, one.width) == 0:
            return True
        if not one.is_float:
            return False
        return (_is_nan(a, one.width) and _is_nan(b, one.width)) or (
            _is_zero(a, one.width) and _is_zero(b, one.width)
        )
    if one.kind == BITS:
        return is_set(one.values, one.bit + this) == is_set(other.values, other.bit + that)
    begin, start = _begin(one, this), _begin(other, that)
    size = _begin(one, this + 1) - begin
    return size == _begin(other, that + 1) - start and memcmp(one.values + begin, other.values + start, size) == 0


cdef bint _compare(
    const View *one, const int64_t *these, const View *other, const int64_t *those, Py_ssize_t rows, uint8_t *out
) noexcept nogil:
    """Take back that rows are equal where this column says so; whether all are equal in it."""
    cdef Py_ssize_t row
    cdef bint is_all = True
    for row in range(rows):
        if not _same(one, these[row], other, those[row]):
            out[row] = 0
            is_all = False
    return is_all


def equal_rows(one, cnp.ndarray these, other, cnp.ndarray those):
    """Whether some values of a column equal those of another one of its type; None of a type that is not
    worked on here. Null equals null, every NaN every NaN, and -0.0 is 0.0.
    """
    cdef View a, b
    cdef Py_ssize_t rows = rows_of(these)
    cdef const int64_t *left = <const int64_t *>data_of(these, 8)
    cdef const int64_t *right = <const int64_t *>data_of(those, 8)
    cdef cnp.npy_intp shape = rows
    if not _view(one, &a) or not _view(other, &b):
        return None
    assert rows_of(those) == rows and a.kind == b.kind and a.width == b.width
    cdef cnp.ndarray made = cnp.PyArray_EMPTY(1, &shape, cnp.NPY_BOOL, 0)
    cdef uint8_t *out = <uint8_t *>cnp.PyArray_DATA(made)
    memset(out, 1, rows)
    if rows > ALONE_ROWS_MAX:
        with nogil:
            _compare(&a, left, &b, right, rows, out)
    else:
        _compare(&a, left, &b, right, rows, out)
    return made
