"""Text to token counts: tokens as scikit-learn's CountVectorizer finds them, lower-cased."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"(?u)\b\w\w+\b")
ALLOWED_KEYS = ("kind", "stop_words", "ngrams", "hash_buckets")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """How one text feature is cut up."""

    stop_words: frozenset[str] = frozenset()
    ngrams: tuple[int, int] = (1, 1)
    hash_buckets: int | None = None

    @classmethod
    def from_options(cls, name: Any, options: Mapping[str, Any]) -> "Tokenizer":
        """Read `{kind: text, stop_words: [...], ngrams: [1, 2], hash_buckets: n}`.

        Raise ValueError naming what is wrong.
        """
        for key in options:
            if key not in ALLOWED_KEYS:
                raise ValueError(f"text feature {name!r}: unknown key {key!r}; allowed are {', '.join(ALLOWED_KEYS)}")
        words = options.get("stop_words") or ()
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"text feature {name!r}: stop_words must be a list of strings, not {words!r}")
        ngrams = options.get("ngrams") or (1, 1)
        if (
            not isinstance(ngrams, Sequence)
            or len(ngrams) != 2
            or not all(type(n) is int for n in ngrams)
            or not 1 <= ngrams[0] <= ngrams[1]
        ):
            raise ValueError(f"text feature {name!r}: ngrams must be [shortest, longest] from 1 on, not {ngrams!r}")
        buckets = options.get("hash_buckets")
        if buckets is not None and (type(buckets) is not int or buckets < 1):
            raise ValueError(f"text feature {name!r}: hash_buckets must be a whole number from 1 on, not {buckets!r}")
        return cls(frozenset(words), (ngrams[0], ngrams[1]), buckets)

    def to_options(self) -> dict[str, Any]:
        """Return the options as JSON values; the opposite of `from_options`."""
        return {
            "kind": "text",
            "stop_words": sorted(self.stop_words),
            "ngrams": list(self.ngrams),
            "hash_buckets": self.hash_buckets,
        }

    @property
    def takes_words(self) -> bool:
        """Whether every word is a token, and nothing else is."""
        return not self.stop_words and self.ngrams == (1, 1) and self.hash_buckets is None

    def counts(self, text: str) -> Mapping[str | int, int]:
        """Return how often each token (or bucket) occurs, in the order of first occurrence."""
        words = _TOKEN.findall(text.lower())
        if self.stop_words:
            words = [word for word in words if word not in self.stop_words]
        if self.ngrams == (1, 1) and self.hash_buckets is None:
            return Counter(words)
        return Counter(self._buckets(self._grams(words)))

    def _grams(self, words: list[str]) -> Iterator[str]:
        shortest, longest = self.ngrams
        for n in range(shortest, longest + 1):
            for i in range(len(words) - n + 1):
                yield " ".join(words[i : i + n])

    def _buckets(self, tokens: Iterator[str]) -> Iterator[str | int]:
        if self.hash_buckets is None:
            yield from tokens
            return
        for token in tokens:
            yield zlib.crc32(token.encode("utf-8", "surrogatepass")) % self.hash_buckets
