"""The counts block read by its complement."""

import numpy as np

from streamnb.learners.block import Batch, Sums
from streamnb.learners.counts import CountsBlock
from streamnb.learners.evidence import of_others
from streamnb.learners.kernels import complement as kernel
from streamnb.learners.kernels.types import Floats, Ints
from streamnb.learners.tables import Buffer


class ComplementBlock(CountsBlock):
    """Counts of which each class is scored by what all the other classes hold."""

    kind = "complement"

    def __init__(self, alpha: float, norm: bool) -> None:
        super().__init__(alpha)
        self.norm = int(norm)

    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        while not kernel.predict_learn(
            self.counts, self.features_, self.groups, self.scalars, self.alpha, self.norm, batch.order,
            len(self.tokens), batch.n_classes, batch.n_rows, buffer.starts, buffer.slots, buffer.values,
            batch.events, sums.first, sums.sums, sums.unseen,
        ):  # fmt: skip
            self.hold_more()
        self.columns.learned(batch)

    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        return kernel.predict_one(
            self.counts, self.features_, self.groups, self.scalars, self.alpha, self.norm, len(self.tokens),
            buffer.slots, buffer.values, n_entries,
            classes, order, prior, read, sums.sums, sums.unseen, sums.probabilities,
        )  # fmt: skip

    def numbers(self, slots: slice, columns: Ints, read: float) -> dict[str, Floats]:
        """Return the complement's share of each token: small where the token speaks for the class."""
        count = read * of_others(self.counts[slots][:, columns].astype(np.float64))
        total = read * of_others(self.groups[:1, columns + 1])
        p = self._shares(count, total, np.zeros(len(count), np.int64))
        return {"p": p, "count": count, "total": np.broadcast_to(total, count.shape)}
