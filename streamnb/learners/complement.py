"""The counts block read by its complement."""

from collections.abc import Iterable
from typing import Any

from streamnb.learners.block import Batch, Likelihood, Sums
from streamnb.learners.counts import CountsBlock
from streamnb.learners.kernels import complement as kernel
from streamnb.learners.kernels.types import Floats, Ints
from streamnb.learners.tables import Buffer
from streamnb.learners.values import sort_key


class ComplementBlock(CountsBlock):
    """Counts of which each class is scored by what all the other classes hold."""

    kind = "complement"

    def __init__(self, alpha: float, norm: bool) -> None:
        super().__init__(alpha)
        self.norm = int(norm)

    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        kernel.predict_learn(
            self.counts, self.features_, self.groups, self.scalars, self.alpha, self.norm, batch.order,
            len(self.tokens), batch.n_classes, batch.n_rows, buffer.starts, buffer.slots, buffer.values,
            batch.events, sums.first, sums.sums, sums.unseen,
        )  # fmt: skip
        self.columns.learned(batch)

    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        return kernel.predict_one(
            self.counts, self.features_, self.groups, self.scalars, self.alpha, self.norm, len(self.tokens),
            buffer.slots, buffer.values, n_entries,
            classes, order, prior, read, sums.sums, sums.unseen, sums.probabilities,
        )  # fmt: skip

    def table(self, labels: list[Any], order: Ints, read: float) -> Iterable[Likelihood]:
        """Yield the complement's share of each token: small where the token speaks for the class."""
        size = len(self.tokens)
        for token in sorted(self.slots_of[0], key=sort_key):
            slot = self.slots_of[0][token]
            numbers = {}
            for label, c in zip(labels, order, strict=True):
                others = [int(o) for o in order if o != c]
                count = read * float(sum(self.counts[slot, o] for o in others))
                total = read * float(sum(self.groups[0, o + 1] for o in others))
                numbers[label] = {"p": self._share(count, total, size), "count": count, "total": total}
            yield Likelihood(token, None, numbers)
