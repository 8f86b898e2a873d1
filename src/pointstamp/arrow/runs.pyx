# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows in the order of words of 64 bits: sorted, merged, added up and searched.

Rows are known by their positions. A tie is a place in an order where a row has all words of the one before it:
who asked says whether the rows are equal.
"""

cimport numpy as cnp
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from pointstamp.arrow.common cimport ALONE_ROWS_MAX, data_of, places_of, rows_of, words_of

cnp.import_array()

cdef extern from *:
    """
    #define POINTSTAMP_FETCH(at) __builtin_prefetch(at)
    #define POINTSTAMP_BITS(word) (64 - __builtin_clzll(word))
    """
    void POINTSTAMP_FETCH(const void *at) noexcept nogil
    int POINTSTAMP_BITS(uint64_t word) noexcept nogil

cdef enum:
    WORDS_MAX = 3
    # So few rows are in order sooner one by one than by counting.
    INSERTED_ROWS_MAX = 24
    # The counts of so many parts stay in the nearest cache.
    PART_BITS_MAX = 11
    # The places to which the rows of so many parts go stay in the cache of addresses.
    FIRST_BITS_MAX = 10
    # So far ahead of its use a place is fetched.
    AHEAD = 12

ctypedef struct Placed:
    uint64_t word
    int64_t at


# Sorting.

cdef void _sort(Placed *rows, Placed *spare, Py_ssize_t count) noexcept nogil:
    """Sort by the word, stable: by its first bits that differ, then each part by the next ones."""
    cdef Py_ssize_t each, place, begin
    cdef uint64_t least, most, word
    cdef bint is_sorted = True
    cdef Placed moved
    cdef int bits, wanted, shift
    cdef Py_ssize_t begins[(1 << PART_BITS_MAX) + 1]
    if count <= INSERTED_ROWS_MAX:
        for each in range(1, count):
            moved = rows[each]
            place = each
            while place > 0 and rows[place - 1].word > moved.word:
                rows[place] = rows[place - 1]
                place -= 1
            rows[place] = moved
        return
    least = most = rows[0].word
    for each in range(1, count):
        word = rows[each].word
        if word < rows[each - 1].word:
            is_sorted = False
        if word < least:
            least = word
        if word > most:
            most = word
    if is_sorted:
        return
    bits = POINTSTAMP_BITS(most - least)
    wanted = POINTSTAMP_BITS(<uint64_t>count) - 2
    if wanted > PART_BITS_MAX:
        wanted = PART_BITS_MAX
    if wanted > bits:
        wanted = bits
    shift = bits - wanted
    for each in range((1 << wanted) + 1):
        begins[each] = 0
    for each in range(count):
        begins[((rows[each].word - least) >> shift) + 1] += 1
    for each in range(1 << wanted):
        begins[each + 1] += begins[each]
    for each in range(count):
        place = <Py_ssize_t>((rows[each].word - least) >> shift)
        spare[begins[place]] = rows[each]
        begins[place] += 1
    memcpy(rows, spare, count * sizeof(Placed))
    if shift == 0:
        return
    begin = 0
    for each in range(1 << wanted):
        if begins[each] - begin > 1:
            _sort(rows + begin, spare + begin, begins[each] - begin)
        begin = begins[each]


cdef void _place(const uint64_t *words, Placed *rows, Placed *spare, Py_ssize_t count) noexcept nogil:
    """Sort rows by their words: the first pass reads the words as they are, and puts each row into its part."""
    cdef Py_ssize_t row, part, begin = 0
    cdef uint64_t least, most, word
    cdef int bits, wanted, shift
    cdef Py_ssize_t begins[(1 << FIRST_BITS_MAX) + 1]
    cdef bint is_sorted = True
    if count > 0:
        least = most = words[0]
    for row in range(1, count):
        word = words[row]
        if word < words[row - 1]:
            is_sorted = False
        if word < least:
            least = word
        if word > most:
            most = word
    if is_sorted or count <= INSERTED_ROWS_MAX:
        for row in range(count):
            rows[row].word = words[row]
            rows[row].at = row
        if not is_sorted:
            _sort(rows, spare, count)
        return
    bits = POINTSTAMP_BITS(most - least)
    wanted = POINTSTAMP_BITS(<uint64_t>count) - 2
    if wanted > FIRST_BITS_MAX:
        wanted = FIRST_BITS_MAX
    if wanted > bits:
        wanted = bits
    shift = bits - wanted
    for part in range((1 << wanted) + 1):
        begins[part] = 0
    for row in range(count):
        begins[((words[row] - least) >> shift) + 1] += 1
    for part in range(1 << wanted):
        begins[part + 1] += begins[part]
    for row in range(count):
        part = <Py_ssize_t>((words[row] - least) >> shift)
        rows[begins[part]].word = words[row]
        rows[begins[part]].at = row
        begins[part] += 1
    if shift == 0:
        return
    for part in range(1 << wanted):
        if begins[part] - begin > 1:
            _sort(rows + begin, spare, begins[part] - begin)
        begin = begins[part]


cdef Py_ssize_t _sort_rest(
    Placed *rows, Placed *spare, uint8_t *is_tie, Py_ssize_t count, const uint64_t **words, int number
) noexcept nogil:
    """Sort what has one word by the next ones, mark the ties, and say how many there are."""
    cdef Py_ssize_t begin = 0, end, each, ties = 0
    while begin < count:
        end = begin + 1
        while end < count and rows[end].word == rows[begin].word:
            end += 1
        if end - begin > 1:
            if number == 1:
                for each in range(begin + 1, end):
                    is_tie[each] = 1
                ties += end - begin - 1
            else:
                for each in range(begin, end):
                    rows[each].word = words[1][rows[each].at]
                _sort(rows + begin, spare + begin, end - begin)
                ties += _sort_rest(
                    rows + begin, spare + begin, is_tie + begin, end - begin, words + 1, number - 1
                )
        begin = end
    return ties


cdef int _words(tuple words, const uint64_t **out) except -1:
    """Where the words lie; how many there are."""
    cdef int number = 0
    for word in words:
        out[number] = <const uint64_t *>data_of(word, 8)
        number += 1
    return number


def in_order(tuple words):
    """The order of rows by up to three words, stable, and its ties."""
    cdef Py_ssize_t count = rows_of(words[0]), row
    cdef const uint64_t *given[WORDS_MAX]
    cdef int number = _words(words, given)
    cdef cnp.ndarray made = places_of(count)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    cdef Placed *rows = <Placed *>PyMem_RawMalloc(2 * count * sizeof(Placed) + 1)
    cdef uint8_t *is_tie = <uint8_t *>PyMem_RawCalloc(count + 1, 1)
    cdef Py_ssize_t ties
    try:
        if rows == NULL or is_tie == NULL:
            raise MemoryError
        if count > ALONE_ROWS_MAX:
            with nogil:
                ties = _in_order(given, number, rows, is_tie, out, count)
        else:
            ties = _in_order(given, number, rows, is_tie, out, count)
        return made, _marked(is_tie, count, ties)
    finally:
        PyMem_RawFree(rows)
        PyMem_RawFree(is_tie)


cdef Py_ssize_t _in_order(
    const uint64_t **words, int number, Placed *rows, uint8_t *is_tie, int64_t *out, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t row, ties
    _place(words[0], rows, rows + count, count)
    ties = _sort_rest(rows, rows + count, is_tie, count, words, number)
    for row in range(count):
        out[row] = rows[row].at
    return ties


cdef cnp.ndarray _marked(const uint8_t *is_marked, Py_ssize_t count, Py_ssize_t marks):
    """The places that are marked."""
    cdef cnp.ndarray made = places_of(marks)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    cdef Py_ssize_t row, found = 0
    if marks:
        for row in range(count):
            if is_marked[row]:
                out[found] = row
                found += 1
    return made


# Merging.

cdef inline int _compared(
    const uint64_t **one, Py_ssize_t this, const uint64_t **other, Py_ssize_t that, int number
) noexcept nogil:
    cdef int each
    for each in range(number):
        if one[each][this] != other[each][that]:
            return -1 if one[each][this] < other[each][that] else 1
    return 0


cdef Py_ssize_t _merge(
    const uint64_t **one, Py_ssize_t ones, const uint64_t **other, Py_ssize_t others, int number,
    int64_t *out, uint8_t *is_tie,
) noexcept nogil:
    cdef Py_ssize_t this = 0, that = 0, row = 0, ties = 0
    cdef const uint64_t *a = one[0]
    cdef const uint64_t *b = other[0]
    cdef bint takes_one
    cdef uint64_t word, last = 0
    while this < ones and that < others:
        if a[this] != b[that]:
            takes_one = a[this] < b[that]
        else:
            takes_one = _compared(one, this, other, that, number) <= 0
        word = a[this] if takes_one else b[that]
        if word == last and row > 0:
            ties += _mark(one, ones, other, out[row - 1], this if takes_one else ones + that, number, is_tie + row)
        last = word
        out[row] = this if takes_one else ones + that
        this += takes_one
        that += not takes_one
        row += 1
    while this < ones:
        if row > 0 and a[this] == last:
            ties += _mark(one, ones, other, out[row - 1], this, number, is_tie + row)
        last = a[this]
        out[row] = this
        this += 1
        row += 1
    while that < others:
        if row > 0 and b[that] == last:
            ties += _mark(one, ones, other, out[row - 1], ones + that, number, is_tie + row)
        last = b[that]
        out[row] = ones + that
        that += 1
        row += 1
    return ties


cdef inline Py_ssize_t _mark(
    const uint64_t **one, Py_ssize_t ones, const uint64_t **other, int64_t this, int64_t that, int number,
    uint8_t *is_tie,
) noexcept nogil:
    """Mark a row that has the words of another one, both of whichever run."""
    cdef const uint64_t **of_this = one if this < ones else other
    cdef const uint64_t **of_that = one if that < ones else other
    if this >= ones:
        this -= ones
    if that >= ones:
        that -= ones
    if _compared(of_this, this, of_that, that, number) != 0:
        return 0
    is_tie[0] = 1
    return 1


def merge_order(tuple one, tuple other):
    """The order of the rows of two sorted parts by their words, and its ties; positions in the second part
    count on from those in the first.
    """
    cdef const uint64_t *a[WORDS_MAX]
    cdef const uint64_t *b[WORDS_MAX]
    cdef int number = _words(one, a)
    cdef Py_ssize_t ones = rows_of(one[0]), others = rows_of(other[0]), ties
    cdef cnp.ndarray made = places_of(ones + others)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    cdef uint8_t *is_tie
    assert _words(other, b) == number
    is_tie = <uint8_t *>PyMem_RawCalloc(ones + others + 1, 1)
    if is_tie == NULL:
        raise MemoryError
    try:
        if ones + others > ALONE_ROWS_MAX:
            with nogil:
                ties = _merge(a, ones, b, others, number, out, is_tie)
        else:
            ties = _merge(a, ones, b, others, number, out, is_tie)
        return made, _marked(is_tie, ones + others, ties)
    finally:
        PyMem_RawFree(is_tie)


# Adding up.

def added_up(cnp.ndarray order, cnp.ndarray same, list weights, list others=None):
    """The rows of an order, and their weights in it; each of ``same``, ascending places in the order, is added
    to the row before it, and rows whose weights are all 0 are left out.

    Positions beyond the weights count on in those of ``others``.
    """
    cdef Py_ssize_t rows = rows_of(order), sames = rows_of(same), row = 0, next_same = 0, begin, end, made = 0
    cdef const int64_t *at = <const int64_t *>data_of(order, 8)
    cdef const int64_t *joined = <const int64_t *>data_of(same, 8)
    cdef cnp.ndarray kept = places_of(rows)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(kept)
    cdef int number = <int>len(weights), each
    cdef const int64_t **given = <const int64_t **>PyMem_RawMalloc(3 * (number + 1) * sizeof(void *))
    cdef const int64_t **further
    cdef int64_t **sums
    cdef Py_ssize_t ones = 0
    cdef int64_t total
    cdef bint is_there
    if given == NULL:
        raise MemoryError
    further = given + number
    sums = <int64_t **>(further + number)
    try:
        totals = []
        for each in range(number):
            given[each] = <const int64_t *>data_of(weights[each], 8)
            ones = rows_of(weights[each])
            # Beyond the first ones, counted from there.
            further[each] = given[each] if others is None else <const int64_t *>data_of(others[each], 8) - ones
            totals.append(places_of(rows))
            sums[each] = <int64_t *>cnp.PyArray_DATA(<cnp.ndarray>totals[each])
        with nogil:
            while row < rows:
                end = row + 1
                while next_same < sames and joined[next_same] == end:
                    end += 1
                    next_same += 1
                is_there = False
                for each in range(number):
                    total = 0
                    for begin in range(row, end):
                        total += given[each][at[begin]] if at[begin] < ones else further[each][at[begin]]
                    sums[each][made] = total
                    if total != 0:
                        is_there = True
                if is_there:
                    out[made] = at[row]
                    made += 1
                row = end
    finally:
        PyMem_RawFree(given)
    if made < rows:  # a part would keep all of it in memory
        kept = kept[:made].copy()
        totals = [each_total[:made].copy() for each_total in totals]
    return kept, totals


# Searching.

cdef inline Py_ssize_t _first(const uint64_t *keys, Py_ssize_t low, Py_ssize_t rows, uint64_t word, Py_ssize_t step) noexcept nogil:
    """Where the first row from ``low`` on stands that is not before a word, in larger and larger steps."""
    cdef Py_ssize_t high = low, middle
    while high < rows and keys[high] < word:
        low = high + 1
        high += step
        step <<= 1
    if high > rows:
        high = rows
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline Py_ssize_t _behind(const uint64_t *keys, Py_ssize_t low, Py_ssize_t rows, uint64_t word) noexcept nogil:
    """Where the rows end that have a word, of which the one before ``low`` is one."""
    cdef Py_ssize_t step = 1, high = low, middle
    while high < rows and keys[high] == word:
        low = high + 1
        high += step
        step <<= 1
    if high > rows:
        high = rows
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] == word:
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t _search(
    const uint64_t *keys, Py_ssize_t rows, const uint64_t *hashes, Py_ssize_t count,
    const int32_t *buckets, int shift, int64_t *which, int64_t *begins, int64_t *ends, Py_ssize_t *total,
) noexcept nogil:
    """Which of some hashes, in order, are there, and from where to where; how many are."""
    cdef Py_ssize_t each, low = 0, found = 0, step = rows // count if count else 1
    cdef uint64_t word
    total[0] = 0
    if step < 1:
        step = 1
    for each in range(count):
        word = hashes[each]
        if buckets != NULL:
            if each + 2 * AHEAD < count:
                POINTSTAMP_FETCH(buckets + (hashes[each + 2 * AHEAD] >> shift))
            if each + AHEAD < count:
                POINTSTAMP_FETCH(keys + buckets[hashes[each + AHEAD] >> shift])
            if buckets[word >> shift] > low:
                low = buckets[word >> shift]
            low = _first(keys, low, rows, word, 1)
        else:
            low = _first(keys, low, rows, word, step)
        if low == rows:
            break
        if keys[low] == word:
            which[found] = each
            begins[found] = low
            ends[found] = _behind(keys, low + 1, rows, word)
            total[0] += ends[found] - low
            found += 1
    return found


cdef Py_ssize_t _searched(
    cnp.ndarray keys, cnp.ndarray hashes, buckets, int shift,
    cnp.ndarray which, cnp.ndarray begins, cnp.ndarray ends, Py_ssize_t *total,
) except -1:
    cdef Py_ssize_t count = rows_of(hashes), rows = rows_of(keys)
    cdef const uint64_t *have = <const uint64_t *>data_of(keys, 8)
    cdef const uint64_t *want = <const uint64_t *>data_of(hashes, 8)
    cdef const int32_t *first = NULL if buckets is None else <const int32_t *>data_of(buckets, 4)
    cdef int64_t *of = <int64_t *>cnp.PyArray_DATA(which)
    cdef int64_t *begin = <int64_t *>cnp.PyArray_DATA(begins)
    cdef int64_t *end = <int64_t *>cnp.PyArray_DATA(ends)
    cdef Py_ssize_t found
    if count > ALONE_ROWS_MAX:
        with nogil:
            found = _search(have, rows, want, count, first, shift, of, begin, end, total)
    else:
        found = _search(have, rows, want, count, first, shift, of, begin, end, total)
    return found


def found_rows(cnp.ndarray keys, cnp.ndarray hashes, buckets, int shift):
    """The rows that have some hashes, given in order: which of these each has, and where it stands.

    ``buckets``, if it is not None, says for the first bits of a hash, without the last ``shift``, where the rows
    begin that have them.
    """
    cdef Py_ssize_t count = rows_of(hashes), found, total
    cdef cnp.ndarray which = places_of(count), begins = places_of(count), ends = places_of(count)
    found = _searched(keys, hashes, buckets, shift, which, begins, ends, &total)
    if total == found:
        return (which, begins) if found == count else (which[:found], begins[:found])
    cdef cnp.ndarray of = places_of(total), at = places_of(total)
    _expand(
        <const int64_t *>cnp.PyArray_DATA(begins), <const int64_t *>cnp.PyArray_DATA(ends), found,
        <const int64_t *>cnp.PyArray_DATA(which),
        <int64_t *>cnp.PyArray_DATA(of), <int64_t *>cnp.PyArray_DATA(at),
    )
    return of, at


cdef void _expand(
    const int64_t *begins, const int64_t *ends, Py_ssize_t count, const int64_t *names, int64_t *which, int64_t *at
) noexcept nogil:
    cdef Py_ssize_t each, row = 0, place
    for each in range(count):
        for place in range(begins[each], ends[each]):
            which[row] = each if names == NULL else names[each]
            at[row] = place
            row += 1


def expanded(cnp.ndarray begins, cnp.ndarray ends):
    """For ranges of positions: which range each position is of, and all positions, one range after another."""
    cdef Py_ssize_t count = rows_of(begins), each, total = 0
    cdef const int64_t *begin = <const int64_t *>data_of(begins, 8)
    cdef const int64_t *end = <const int64_t *>data_of(ends, 8)
    for each in range(count):
        if end[each] > begin[each]:
            total += end[each] - begin[each]
    cdef cnp.ndarray which = places_of(total), at = places_of(total)
    _expand(begin, end, count, NULL, <int64_t *>cnp.PyArray_DATA(which), <int64_t *>cnp.PyArray_DATA(at))
    return which, at


def add_at(cnp.ndarray totals, cnp.ndarray which, cnp.ndarray values, cnp.ndarray at):
    """Add values at some positions to totals, each to the one that ``which`` says."""
    cdef int64_t *out = <int64_t *>data_of(totals, 8)
    cdef const int64_t *to = <const int64_t *>data_of(which, 8)
    cdef const int64_t *given = <const int64_t *>data_of(values, 8)
    cdef const int64_t *places = <const int64_t *>data_of(at, 8)
    cdef Py_ssize_t row
    for row in range(rows_of(which)):
        out[to[row]] += given[places[row]]


# The first rows of keys.

def first_places(
    cnp.ndarray keys, cnp.ndarray prefixes, cnp.ndarray hashes, buckets, int shift, Py_ssize_t most,
    cnp.ndarray bounds, cnp.ndarray is_all,
):
    """The first rows, at most so many, that have each of some hashes: which of these each has, and where it is.

    Where there are more, the bound of the hash comes down to the prefix of the last one, and it has not all.
    """
    cdef Py_ssize_t count = rows_of(hashes), found, total, each
    cdef cnp.ndarray which = places_of(count), begins = places_of(count), ends = places_of(count)
    cdef int64_t *of = <int64_t *>cnp.PyArray_DATA(which)
    cdef int64_t *begin = <int64_t *>cnp.PyArray_DATA(begins)
    cdef int64_t *end = <int64_t *>cnp.PyArray_DATA(ends)
    cdef const uint64_t *by = <const uint64_t *>data_of(prefixes, 8)
    cdef uint64_t *bound = <uint64_t *>data_of(bounds, 8)
    cdef uint8_t *has_all = <uint8_t *>data_of(is_all, 1)
    found = _searched(keys, hashes, buckets, shift, which, begins, ends, &total)
    for each in range(found):
        if end[each] - begin[each] > most:
            total -= end[each] - begin[each] - most
            end[each] = begin[each] + most
            has_all[of[each]] = 0
            if by[end[each] - 1] < bound[of[each]]:
                bound[of[each]] = by[end[each] - 1]
    cdef cnp.ndarray rows_which = places_of(total), at = places_of(total)
    _expand(begin, end, found, of, <int64_t *>cnp.PyArray_DATA(rows_which), <int64_t *>cnp.PyArray_DATA(at))
    return rows_which, at


def decided(
    cnp.ndarray bounds, cnp.ndarray is_all, Py_ssize_t wanted,
    cnp.ndarray group, cnp.ndarray prefixes, cnp.ndarray weights,
    cnp.ndarray of, cnp.ndarray of_prefixes, cnp.ndarray of_weights,
):
    """Which keys have as many rows as are wanted among those that are known, before a change and after it.

    ``group`` and what follows it are the stored rows that were looked at, ``of`` and what follows it those of
    the change. A row is known if its prefix is before the bound of its key, or the key has all its rows here.
    Returns the known rows of these keys, those of the change, and the keys that are left.
    """
    cdef Py_ssize_t keys = rows_of(bounds), stored = rows_of(group), changed = rows_of(of), row, each
    cdef const uint64_t *bound = <const uint64_t *>data_of(bounds, 8)
    cdef const uint8_t *has_all = <const uint8_t *>data_of(is_all, 1)
    cdef const int64_t *key = <const int64_t *>data_of(group, 8)
    cdef const uint64_t *prefix = <const uint64_t *>data_of(prefixes, 8)
    cdef const int64_t *weight = <const int64_t *>data_of(weights, 8)
    cdef const int64_t *new_key = <const int64_t *>data_of(of, 8)
    cdef const uint64_t *new_prefix = <const uint64_t *>data_of(of_prefixes, 8)
    cdef const int64_t *new_weight = <const int64_t *>data_of(of_weights, 8)
    cdef cnp.ndarray rows = places_of(stored), own = places_of(changed), left = places_of(keys)
    cdef int64_t *rows_out = <int64_t *>cnp.PyArray_DATA(rows)
    cdef int64_t *own_out = <int64_t *>cnp.PyArray_DATA(own)
    cdef int64_t *left_out = <int64_t *>cnp.PyArray_DATA(left)
    cdef Py_ssize_t known = 0, known_new = 0, open_keys = 0
    cdef int64_t *before = <int64_t *>PyMem_RawCalloc(2 * keys + 1, 8)
    cdef int64_t *after = before + keys
    if before == NULL:
        raise MemoryError
    try:
        for row in range(stored):
            each = key[row]
            if has_all[each] or prefix[row] < bound[each]:
                before[each] += weight[row]
        for each in range(keys):
            after[each] = before[each]
        for row in range(changed):
            each = new_key[row]
            if has_all[each] or new_prefix[row] < bound[each]:
                after[each] += new_weight[row]
        for each in range(keys):
            if not has_all[each] and (before[each] < wanted or after[each] < wanted):
                left_out[open_keys] = each
                open_keys += 1
                before[each] = -1  # no longer asked for
                after[each] = -1
        for row in range(stored):
            each = key[row]
            if (has_all[each] or (prefix[row] < bound[each] and before[each] >= wanted)):
                rows_out[known] = row
                known += 1
        for row in range(changed):
            each = new_key[row]
            if (has_all[each] or (new_prefix[row] < bound[each] and before[each] >= wanted)):
                own_out[known_new] = row
                known_new += 1
    finally:
        PyMem_RawFree(before)
    return rows[:known], own[:known_new], left[:open_keys]


def first_of_groups(
    cnp.ndarray group, is_new, cnp.ndarray weights, Py_ssize_t wanted
):
    """Of rows in order by group: how many copies of each are among the first ones, and how many come before it.

    With ``is_new``, which rows differ from the one before in the order, rows that do not come before all of
    them or after all: of the last that are among the first all are.
    """
    cdef Py_ssize_t rows = rows_of(group), row
    cdef const int64_t *of = <const int64_t *>data_of(group, 8)
    cdef const int64_t *given = <const int64_t *>data_of(weights, 8)
    cdef const uint8_t *begins = NULL if is_new is None else <const uint8_t *>data_of(is_new, 1)
    cdef cnp.ndarray kept = places_of(rows), before = places_of(rows)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(kept)
    cdef int64_t *places = <int64_t *>cnp.PyArray_DATA(before)
    cdef int64_t total = 0, place = 0, rest
    for row in range(rows):
        if row == 0 or of[row] != of[row - 1]:
            total = place = 0
        elif begins == NULL or begins[row]:
            place = total
        places[row] = place
        if begins != NULL:
            out[row] = given[row] if place < wanted else 0
        else:
            rest = wanted - place if place < wanted else 0
            out[row] = rest if rest < given[row] else given[row]
        total += given[row]
    return kept, before


def ties(cnp.ndarray one, cnp.ndarray other):
    """Where both words of a row are those of the row before it."""
    cdef const uint64_t *a = <const uint64_t *>data_of(one, 8)
    cdef const uint64_t *b = <const uint64_t *>data_of(other, 8)
    cdef Py_ssize_t rows = rows_of(one), row, found = 0
    for row in range(1, rows):
        found += a[row] == a[row - 1] and b[row] == b[row - 1]
    cdef cnp.ndarray made = places_of(found)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    found = 0
    if rows_of(made):
        for row in range(1, rows):
            if a[row] == a[row - 1] and b[row] == b[row - 1]:
                out[found] = row
                found += 1
    return made


def groups(cnp.ndarray words):
    """Of words in order: where each that differs from the one before stands, the group of each row, and where
    rows stand that have the word of the one before.
    """
    cdef const uint64_t *at = <const uint64_t *>data_of(words, 8)
    cdef Py_ssize_t rows = rows_of(words), row, count = 0, sames = 0
    cdef cnp.ndarray firsts, group = places_of(rows), same
    cdef int64_t *of = <int64_t *>cnp.PyArray_DATA(group)
    cdef int64_t *first
    cdef int64_t *again
    for row in range(rows):
        count += row == 0 or at[row] != at[row - 1]
        of[row] = count - 1
    firsts, same = places_of(count), places_of(rows - count)
    first = <int64_t *>cnp.PyArray_DATA(firsts)
    again = <int64_t *>cnp.PyArray_DATA(same)
    for row in range(rows):
        if row == 0 or of[row] != of[row - 1]:
            first[of[row]] = row
        else:
            again[sames] = row
            sames += 1
    return firsts, group, same


def group_sums(cnp.ndarray values, cnp.ndarray firsts):
    """The sums of groups of values that lie together, given where each begins; none is empty."""
    cdef const int64_t *at = <const int64_t *>data_of(values, 8)
    cdef const int64_t *first = <const int64_t *>data_of(firsts, 8)
    cdef Py_ssize_t rows = rows_of(values), count = rows_of(firsts), each, row, end
    cdef cnp.ndarray made = places_of(count)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(made)
    cdef uint64_t total  # what is beyond 64 bits is left out, as numpy does
    for each in range(count):
        total = 0
        end = first[each + 1] if each + 1 < count else rows
        for row in range(first[each], end):
            total += <uint64_t>at[row]
        out[each] = <int64_t>total
    return made


def by_number(cnp.ndarray numbers, Py_ssize_t count):
    """The order of rows by a number from 0 on, stable, in one pass; and where each number begins, and the end."""
    cdef const int64_t *of = <const int64_t *>data_of(numbers, 8)
    cdef Py_ssize_t rows = rows_of(numbers), row
    cdef cnp.ndarray order = places_of(rows), begins = places_of(count + 1)
    cdef int64_t *out = <int64_t *>cnp.PyArray_DATA(order)
    cdef int64_t *begin = <int64_t *>cnp.PyArray_DATA(begins)
    with nogil:
        for row in range(count + 1):
            begin[row] = 0
        for row in range(rows):
            begin[of[row] + 1] += 1
        for row in range(count):
            begin[row + 1] += begin[row]
        for row in range(rows):
            out[begin[of[row]]] = row
            begin[of[row]] += 1
        for row in range(count, 0, -1):  # each stands where the next one began
            begin[row] = begin[row - 1]
        begin[0] = 0
    return order, begins
