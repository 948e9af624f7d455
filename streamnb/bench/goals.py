"""The ratios that the learners are to reach, and what was measured of each."""

from dataclasses import asdict, dataclass
from typing import Any

COLUMNS = (
    "predict_proba_one / river",
    "learn_one / river",
    "test-then-train / river",
    "learn_many / sklearn",
    "predict_proba_many / sklearn",
)
GOALS: dict[str, tuple[float, ...]] = {
    "Gaussian, 8 features, 2 classes": (0.03, 0.8, 0.05, 0.12, 0.35),
    "Gaussian, 30 features, 10 classes": (0.02, 0.4, 0.03, 0.12, 0.35),
    "multinomial, 50 tokens, 20 classes, V = 20k": (0.03, 0.2, 0.04, 0.05, 0.8),
    "multinomial, 50 tokens, 20 classes, V = 200k": (0.04, 0.25, 0.05, 0.01, 0.4),
    "complement, 50 tokens, 20 classes, V = 20k": (1e-4, 0.15, 2e-4, 0.06, 1.0),
    "complement, 50 tokens, 20 classes, V = 200k": (1e-5, 0.15, 2e-5, 0.01, 0.3),
    "Bernoulli, 50 tokens, 20 classes, V = 20k": (1e-4, 0.3, 2e-4, 0.06, 0.5),
    "Bernoulli, 50 tokens, 20 classes, V = 200k": (1e-5, 0.4, 2e-5, 0.01, 0.1),
    "categorical, 10 features, 5 classes": (0.015, 0.03, 0.02, 0.5, 1.0),
    "mixed 4 numbers + 3 strings + flag, 4 classes": (0.04, 0.2, 0.05),
}
BATCH_RIVER = "predict_proba_learn_many / river event by event", 0.004
BATCH_SKLEARN = "predict_proba_learn_many / sklearn row by row", 0.002
MEMORY_RIVER = "memory / river", 1.2
MEMORY_SKLEARN = "memory / sklearn and its vocabulary", 0.5
VOCABULARY = "test-then-train, V = 2000k / V = 20k", 2.0
MICROSECONDS = {
    "Gaussian, 8 features, 2 classes": ("MOA", 0.42),
    "Gaussian, 30 features, 10 classes": ("MOA", 5.8),
    "multinomial, 50 tokens, 20 classes, V = 20k": ("Vowpal Wabbit", 28.5),
}
"""Test-then-train of compiled peers, measured on another machine: shown beside ours, no goal."""


@dataclass(frozen=True, slots=True)
class Result:
    """One figure: a ratio to a peer, or microseconds if there is no peer."""

    row: str
    column: str
    value: float
    low: float
    """Quartiles of the repeats."""
    high: float
    goal: float | None = None
    """The value may not be above it, or with `at_least` below it; None: it is only shown."""
    ours: float | None = None
    peer: float | None = None
    """Medians of both sides: microseconds per event, bytes for memory."""
    note: str = ""
    at_least: bool = False

    @property
    def ok(self) -> bool | None:
        """Whether the goal is reached."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "ok": self.ok}
