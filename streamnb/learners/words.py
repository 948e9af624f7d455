"""The words of text features, where a kernel finds them: a cache of the dictionaries that hold names and slots."""

import re
from itertools import islice
from typing import Any

import numpy as np

from streamnb.learners.kernels import words as kernel
from streamnb.learners.kernels.types import Array, Ints
from streamnb.learners.kernels.words import NUMBER_BYTES, PLACE_BYTES, START, STOP, WORD_FIELDS, most_words, places_for
from streamnb.learners.tables import Buffer, grown

FIRST_PLACES = 64
MOST_FULL = 0.85
"""Of the places of a table, before it grows by `GROWTH`."""
GROWTH = 1.125
SEED = hash("words of a text")
"""As Python's own: another one in every process, so that nobody can choose words that all have one place."""
LONGEST = 1 << 16
"""Bytes of a text that is cut here: room for it is kept."""
_NO_WORDS = re.compile(r"\W+")


class Words:
    """The words of one text feature. It follows a dictionary, `known`, that words are only added to."""

    def __init__(self) -> None:
        self._table = _table(FIRST_PLACES)
        self._records: Array = np.zeros((FIRST_PLACES, 1), np.uint8)
        self._n = 0
        self._used = 0
        self._strange = False
        self._hold(0)

    def _follow(self, known: dict[Any, int]) -> bool:
        """Take up the words added last. False for ever if one of them is none."""
        n = len(known) - self._n
        if n == 0 or self._strange:
            return not self._strange
        self._strange = True
        added = list(islice(reversed(known), n))
        slots = np.fromiter(map(known.__getitem__, added), np.int64, n)
        try:
            text = "\0".join(added).encode() + b"\0"
        except (TypeError, UnicodeEncodeError):
            return False
        need = self._used + len(text) + NUMBER_BYTES * n
        if need > kernel.LOW:
            return False
        self._records = grown(self._records, [need, 1])
        used = kernel.add(self._records, self._used, np.frombuffer(bytearray(text), np.uint8), len(text), slots)
        if used < 0:
            return False
        start = self._used
        if len(known) * PLACE_BYTES > MOST_FULL * len(self._table):
            start, self._table = 0, _table(int(len(known) / MOST_FULL * GROWTH))
        kernel.enter(self._table, self._records, start, used, SEED)
        self._n, self._used = len(known), used
        self._strange = False
        return True

    def _hold(self, n_bytes: int) -> None:
        """Make room for a text."""
        self._for_text = bytearray(n_bytes)
        self._text = np.frombuffer(self._for_text, np.uint8)
        self._words: Ints = np.empty((most_words(n_bytes), WORD_FIELDS), np.int64)
        self._met: Array = np.empty(places_for(n_bytes), np.int32)

    def write(self, known: dict[Any, int], text: str, buffer: Buffer, before: int, group: int) -> tuple[int, int]:
        """Write the different words of a text, as they come, behind the entries `before` after the last row of a batch.

        Return how many there are, and how many of these are not known: slot -1. (-1, 0), and nothing is written, if
        the text is too long, or if `known` holds what is no word.
        """
        spelled = (text if text.isascii() else _NO_WORDS.sub(" ", text.lower())).encode()
        n_bytes = len(spelled)
        if n_bytes > LONGEST or not self._follow(known):
            return -1, 0
        if n_bytes > len(self._for_text):
            self._hold(min(n_bytes + n_bytes // 8, LONGEST))
        self._for_text[:n_bytes] = spelled
        buffer.room(before + most_words(n_bytes))
        return kernel.find(
            self._text, n_bytes, SEED, self._table, self._records, self._words, self._met,
            buffer.slots, buffer.extras, buffer.values, buffer.used + before, group,
        )  # fmt: skip

    def word(self, place: int) -> str:
        """Return a word of the last text."""
        return self._for_text[self._words[place, START] : self._words[place, STOP]].decode()


def _table(n_places: int) -> Array:
    return np.zeros((n_places * PLACE_BYTES, 1), np.uint8)
