"""Forward decay: an event counts half as much after every `half_life` seconds of event time (Cormode et al. 2009).

Weights are stored as they are at a landmark, and read at the latest event time learned. The landmark is a whole
multiple of half_life, so moving it multiplies every weight by a power of two, which is exact.
"""

import math

from streamnb.learners.kernels.layout import LABEL, READ, SHIFT, WEIGHT
from streamnb.learners.rows import Rows

LANDMARK_LAG = 16
"""Half-lives that the landmark may lie behind the latest event before every weight is rescaled."""


class Forgetting:
    """Where the landmark stands (in half-lives) and the latest event time learned (in seconds).

    None: nothing learned yet.
    """

    __slots__ = ("half_life", "landmark", "latest")

    def __init__(self, half_life: float | None) -> None:
        self.half_life = half_life
        self.landmark: float | None = None
        self.latest: float | None = None

    def copy(self) -> "Forgetting":
        twin = Forgetting(self.half_life)
        twin.landmark, twin.latest = self.landmark, self.latest
        return twin

    def _split(self, t: float) -> tuple[float, float]:
        """Return a time in half-lives: whole ones, and the rest in [0, 1)."""
        assert self.half_life is not None
        rest = math.fmod(t, self.half_life)
        if rest < 0.0:
            rest += self.half_life
        return round((t - rest) / self.half_life), rest / self.half_life

    def read_factor(self) -> float:
        """Return what every stored weight is to be multiplied by to be read at the latest event time learned."""
        if self.latest is None or self.landmark is None:
            return 1.0
        whole, rest = self._split(self.latest)
        return math.exp2(-rest) * power_of_two(self.landmark - whole)

    def weigh(self, rows: Rows) -> None:
        """Turn each row's weight into its weight at the landmark.

        Note what the state is read with and multiplied by.
        """
        events = rows.batch.events
        for i, time in enumerate(rows.times):
            events[i, READ] = self.read_factor()
            if events[i, LABEL] < 0.0:
                continue
            if time is None:
                time = 0.0 if self.latest is None else self.latest
            whole, rest = self._split(time)
            if self.latest is None or time > self.latest:
                self.latest = time
            newest, _ = self._split(self.latest)
            if self.landmark is None:
                self.landmark = newest
            elif newest - self.landmark > LANDMARK_LAG:
                events[i, SHIFT] = power_of_two(self.landmark - newest)
                self.landmark = newest
            events[i, WEIGHT] *= math.exp2(rest) * power_of_two(whole - self.landmark)

    def meet(self, other: "Forgetting") -> tuple[float, float]:
        """Take the later landmark and time of two models.

        Return what this one's and the other's weights are multiplied by.
        """
        if other.landmark is None or other.latest is None:
            return 1.0, 1.0
        if self.landmark is None or self.latest is None:
            self.landmark, self.latest = other.landmark, other.latest
            return 1.0, 1.0
        landmark = max(self.landmark, other.landmark)
        factors = power_of_two(self.landmark - landmark), power_of_two(other.landmark - landmark)
        self.landmark, self.latest = landmark, max(self.latest, other.latest)
        return factors


def power_of_two(exponent: float) -> float:
    """Return 2 to a whole number, 0 where that is below float64."""
    return math.ldexp(1.0, int(max(exponent, -2000.0)))
