"""Words and their slots in an open-addressed table (linear probing; Knuth 1973), and texts cut up by it.

No Python object is made per word, and what all words of a text need is asked for before the first is looked up.
`table` is, place by place, a mark and the place of a record: the mark is 0 where no word is, else 1 to 255 as the
word's hash has it. `records` are a slot, the word's bytes and a 0 each. Both are bytes, (n_bytes, 1). Words are UTF-8,
never empty, and compared whole.
"""

from typing import Any

import numpy as np

from streamnb.learners.kernels.fetching import fetch
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.types import Array, Floats, Ints

HALF = 32
LOW = (1 << HALF) - 1
NUMBER_BYTES = 4
"""Of a slot and of the place of a record: `records` may not be longer than `LOW`."""
PLACE_BYTES = 1 + NUMBER_BYTES
START, STOP, HASH, PLACE = range(4)
WORD_FIELDS = 4
SHORTEST = 2
"""Characters of a word, as scikit-learn has it."""
MULTIPLIER = 0x9E3779B97F4A7C15 - (1 << 64)
CONTINUED, CONTINUATION = 0xC0, 0x80
"""The bits that say that a byte of UTF-8 does not begin a character, and what they are then."""


def _spelled() -> Array:
    """What each byte of a text is in a word, 0 if it is in none. Those above 127 are parts of letters."""
    spelled = np.zeros(256, np.uint8)
    for byte in range(256):
        if byte >= 128 or chr(byte).isalnum() or chr(byte) == "_":
            spelled[byte] = byte if byte >= 128 else ord(chr(byte).lower())
    return spelled


SPELLED = _spelled()


@inlined
def hashed(held: int, byte: Any) -> int:
    """Return the hash of a word that is one byte longer."""
    return int((held ^ np.int64(byte)) * MULTIPLIER)


@inlined
def folded(held: int) -> int:
    """Return the half of a hash that all its bytes had a part in."""
    return (held >> HALF) & LOW


@inlined
def home(half: int, n_bytes: int) -> int:
    """Return where a word is looked for first: hashes are spread over a table of any length (Lemire 2019)."""
    return (half * (n_bytes // PLACE_BYTES) >> HALF) * PLACE_BYTES


@inlined
def mark_of(half: int) -> int:
    """Return what tells words of one place apart, for the most part."""
    return 1 + half % 255


@inlined
def number_at(held: Array, at: int) -> int:
    """Return the number that is written here, its least byte first."""
    number = np.int64(0)
    for b in range(NUMBER_BYTES):
        number |= np.int64(held[at + b, 0]) << (8 * b)
    return int(number)


@inlined
def write_number(held: Array, at: int, number: int) -> None:
    """Write a number here."""
    for b in range(NUMBER_BYTES):
        held[at + b, 0] = (number >> (8 * b)) & 255


@inlined
def alike(table: Array, at: int, mark: int) -> int:
    """Return the first place from here on that has this mark, or nothing."""
    while table[at, 0] != 0 and table[at, 0] != mark:
        at += PLACE_BYTES
        if at == table.shape[0]:
            at = 0
    return at


@inlined
def record_at(table: Array, at: int) -> int:
    """Return where the word of this place has its record."""
    return number_at(table, at + 1)


@jit
def add(records: Array, used: int, text: Array, n_bytes: int, slots: Ints) -> int:
    """Write the records of words, `text` with a 0 after each, in these slots; return how many bytes are used then.

    There must be room. -1 if there are not as many words as slots.
    """
    n = 0
    at = used
    for i in range(n_bytes):
        if i == 0 or text[i - 1] == 0:
            if n == len(slots):
                return -1
            write_number(records, at, slots[n])
            at += NUMBER_BYTES
            n += 1
        records[at, 0] = text[i]
        at += 1
    return at if n == len(slots) else -1


@jit
def enter(table: Array, records: Array, start: int, stop: int, seed: int) -> None:
    """Enter the words of these records. There must be room."""
    at = start
    while at < stop:
        record = at
        at += NUMBER_BYTES
        held = seed
        while records[at, 0] != 0:
            held = hashed(held, records[at, 0])
            at += 1
        at += 1
        place = home(folded(held), table.shape[0])
        while table[place, 0] != 0:
            place += PLACE_BYTES
            if place == table.shape[0]:
                place = 0
        table[place, 0] = mark_of(folded(held))
        write_number(table, place + 1, record)


@inlined
def same(text: Array, start: int, other: int, n: int) -> bool:
    """Whether the text holds the same bytes at both places."""
    i = 0
    while i < n and text[start + i] == text[other + i]:
        i += 1
    return i == n


@inlined
def is_word(records: Array, record: int, text: Array, start: int, stop: int) -> bool:
    """Whether a record is of this word."""
    at = record + NUMBER_BYTES - start
    i = start
    while i < stop and records[at + i, 0] == text[i]:  # not where the record ends, since no word has a 0
        i += 1
    return i == stop and bool(records[at + i, 0] == 0)


@inlined
def most_words(n_bytes: int) -> int:
    """Return how many words a text of so many bytes can have."""
    return n_bytes // (SHORTEST + 1) + 1


@inlined
def places_for(n_bytes: int) -> int:
    """Return a power of two that is at least twice as many as the words of a text of so many bytes."""
    n_places = 2
    while n_places < 2 * most_words(n_bytes):
        n_places *= 2
    return n_places


@inlined
def cut(text: Array, n_bytes: int, seed: int, table: Array, words: Ints, met: Array, counts: Floats) -> int:
    """List the different words of a text in the order in which they come, lower-cased in place; return how many.

    `met` is room for a table of those listed.
    """
    n = 0
    n_places = places_for(n_bytes)
    mask = n_places - 1
    met[:n_places] = 0
    start = 0
    characters = 0
    held = seed
    for i in range(n_bytes + 1):
        byte = SPELLED[text[i]] if i < n_bytes else 0
        if byte != 0:
            text[i] = byte
            held = hashed(held, byte)
            characters += (byte & CONTINUED) != CONTINUATION
            continue
        if characters >= SHORTEST:
            half = folded(held)
            at = half & mask
            while met[at] != 0:
                word = met[at] - 1
                first = words[word, START]
                length = words[word, STOP] - first
                if words[word, HASH] == half and length == i - start and same(text, first, start, length):
                    counts[word] += 1.0
                    break
                at = (at + 1) & mask
            else:
                place = home(half, table.shape[0])
                fetch(table, place, 0)
                words[n, START], words[n, STOP], words[n, HASH], words[n, PLACE] = start, i, half, place
                counts[n] = 1.0
                n += 1
                met[at] = n
        start = i + 1
        characters = 0
        held = seed
    return n


@jit
def find(
    text: Array,
    n_bytes: int,
    seed: int,
    table: Array,
    records: Array,
    words: Ints,
    met: Array,
    slots: Ints,
    groups: Ints,
    counts: Floats,
    before: int,
    group: int,
) -> tuple[int, int]:
    """Cut a text; return how many different words there are, and how many of these are not in the table.

    Set each one's slot (-1 if it is not there), group, and how often it comes, after the entries `before`.
    """
    n = cut(text, n_bytes, seed, table, words, met, counts[before:])
    for word in range(n):
        place = alike(table, words[word, PLACE], mark_of(words[word, HASH]))
        words[word, PLACE] = place
        fetch(records, record_at(table, place), 0)
    unknown = 0
    for word in range(n):
        place = words[word, PLACE]
        slot = -1
        while slot < 0 and table[place, 0] != 0:
            record = record_at(table, place)
            if is_word(records, record, text, words[word, START], words[word, STOP]):
                slot = number_at(records, record)
            else:
                place = alike(table, (place + PLACE_BYTES) % table.shape[0], mark_of(words[word, HASH]))
        unknown += slot < 0
        slots[before + word] = slot
        groups[before + word] = group
    return n, unknown
