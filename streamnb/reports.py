"""What the engine tells the world: values that metrics and the status page read. A leaf: no effects here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from streamnb.errors import Reason
from streamnb.transport import Partition, Role

State = Literal["starting", "restoring", "running", "draining", "stopped"]
Outcome = Literal["ok", "dead", "skipped"]
TransactionOutcome = Literal["committed", "aborted", "unknown"]
Direction = Literal["worse", "better"]

CALIBRATION_BINS = 10


@dataclass(slots=True)
class Step:
    """What one pass of the loop did.

    Counts leave out what was read while restoring or is below the highest offset handled.
    """

    seconds: float = 0.0
    records: int = 0
    """Records read, counted or not."""
    events: dict[tuple[Role, Outcome], int] = field(default_factory=dict)
    predictions: int = 0
    """Published and committed."""
    late: int = 0
    """Predictions answered on read-back."""
    dead_letters: dict[Reason, int] = field(default_factory=dict)
    """Published and committed."""
    labels_ignored: int = 0
    features: int = 0
    """Features, categories and tokens that the events came with."""
    unseen_features: int = 0
    published: dict[str, int] = field(default_factory=dict)
    """Predictions by the class that they name, published and committed."""
    ages: Sequence[float] = ()
    """Seconds from an event's record to its answer's commit, never negative."""


@dataclass(frozen=True, slots=True)
class ClassScore:
    evaluated: int
    correct: int
    predicted: int
    """How often this class was the answer to a labelled event."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Scored events whose answer was about as probable: one point of a reliability diagram."""

    events: int = 0
    correct: int = 0
    confidence: float = 0.0
    """Sum of the answers' probabilities."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of the error, found at the scored event of this number."""

    event: int
    before: float
    """Share of errors before the change; `after`, since."""
    after: float

    @property
    def direction(self) -> Direction:
        return "worse" if self.after > self.before else "better"


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often which class was answered for which; bounded, so the classes that came last are one."""

    classes: tuple[str, ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()
    """`counts[actual][answered]`, in the order of `classes`; the last row and column are all other classes."""


@dataclass(frozen=True, slots=True)
class ScoresView:
    """The test-then-train scores of the stream so far (from the snapshot on, across restarts)."""

    evaluated: int = 0
    correct: int = 0
    log_loss_nats: float = 0.0
    """Sum, with p clipped at 1e-15."""
    brier: float = 0.0
    """Sum."""
    unknown_labels: int = 0
    """Labelled events whose class was not known when they came."""
    recent_accuracy: float | None = None
    majority_correct: int = 0
    """What always answering the most frequent class so far would have got right."""
    classes: Mapping[str, ClassScore] = field(default_factory=dict)
    prior_log_loss_nats: float = 0.0
    """What always answering with the classes' shares so far would have got: the majority class in log loss."""
    calibration: tuple[Bin, ...] = (Bin(),) * CALIBRATION_BINS
    """By the answer's probability, in bins of equal width from 0 to 1."""
    drifts_worse: int = 0
    drifts_better: int = 0
    drifts: tuple[Drift, ...] = ()
    """The last few, oldest first."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    role: Role
    owned: bool
    start: int
    end: int
    position: int
    """Where the engine reads on."""
    learned: int | None
    published: int | None
    open_upstream_seconds: float = 0.0
    """How long the last stable offset has stood below the high watermark."""


@dataclass(frozen=True, slots=True)
class ModelView:
    kind: str
    n_events: int
    n_features: int
    class_count: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TopFeature:
    """A feature, or one of its categories or tokens, that speaks for a class."""

    name: str
    nats: float
    """What it brings, on average, to an event of the class: the log-likelihood against all other classes."""
    measure: Literal["mean", "share"]
    here: float
    """Mean, or share of the class's events or tokens; `elsewhere`, over all other classes."""
    elsewhere: float


@dataclass(frozen=True, slots=True)
class TopFeatures:
    """What speaks most for each class, as of a number of learned events."""

    n_events: int = 0
    classes: Mapping[str, tuple[TopFeature, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """An immutable picture of the daemon, published by the loop and read by the HTTP thread."""

    app: str
    instance: str
    version: str
    state: State
    not_ready: str | None
    """Why the daemon is not ready; None when it is."""
    started: float
    """Seconds since 1970, like every time here."""
    last_step: float | None
    last_commit: float | None
    partitions: Mapping[Partition, PartitionView]
    model: ModelView
    scores: ScoresView
    restore_remaining: int
    lost_events: int
    snapshot_time: float | None
    snapshot_bytes: int | None
    dead_letters: Mapping[Reason, int]
    confusion: Confusion = Confusion()
    top_features: TopFeatures = TopFeatures()


class Observer(Protocol):
    """Told by the loop; must return at once and never raise."""

    def stepped(self, step: Step) -> None: ...
    def transaction(self, outcome: TransactionOutcome, seconds: float) -> None: ...
    def rebalanced(self, kind: Literal["assigned", "revoked"]) -> None: ...
    def snapshot(self, outcome: Literal["ok", "failed", "damaged"], seconds: float, size: int) -> None: ...
    def lost(self, events: int) -> None: ...
    def status(self, status: Status) -> None: ...
