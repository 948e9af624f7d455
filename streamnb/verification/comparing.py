"""A model beside the reference: the largest difference of each kind of parameter, and what is allowed."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from streamnb.learners import build
from streamnb.learners.block import Likelihood
from streamnb.learners.model import Model
from streamnb.verification.blocks import ZERO, Cell
from streamnb.verification.parts import ALONE
from streamnb.verification.reference import Joint, Reference, posterior

ROUNDING = 1e-12
FRACTIONAL_COUNTS = 1e-9
EXACT_BELOW = 2**53


@dataclass(slots=True)
class Row:
    """One kind of parameter. Equal if the largest difference is at most what is allowed."""

    what: str
    allowed: float
    measured_by: str
    """What a difference is divided by; "" for a plain one."""
    compared: int = 0
    largest: float = 0.0
    where: str = ""

    @property
    def equal(self) -> bool:
        return self.largest <= self.allowed

    def note(self, difference: float, where: Callable[[], str]) -> None:
        """Take one comparison; NaN is the largest difference of all."""
        self.compared += 1
        if not difference <= self.largest and not math.isinf(self.largest):
            self.largest = math.inf if math.isnan(difference) else difference
            self.where = where()


def compare(model: Model, reference: Reference, sample: Iterable[Mapping[str, Any]], fractional: bool) -> list[Row]:
    """Compare everything that the model holds, and its answers to some events."""
    raw = without_smoothing(model)
    lines = raw.likelihood_table()
    rows = [*_names(raw, lines, reference), *_counts(raw, lines, reference, fractional)]
    if reference.gaussian.pooled or any("mean" in _any(line) for line in lines):
        rows += [*_moments(lines, reference), _epsilon(model, reference)]
    return [row for row in [*rows, _priors(model, reference), *_answers(model, reference, sample)] if row.compared]


def without_smoothing(model: Model) -> Model:
    """The same state, read so that variances are what was learned."""
    options = dict(model.options)
    for name in ("var_smoothing", "ddof"):
        if name in options:
            options[name] = 0.0
    raw = build(model.kind, **options)
    raw.restore(model.to_bytes())
    return raw


def off(found: float, due: Fraction | float, scale: Fraction | float) -> float:
    """How far `found` is from `due`, in units of `scale`; without a scale any difference is infinite."""
    if found == due:
        return 0.0
    if not math.isfinite(found) or not math.isfinite(due) or scale == 0:
        return math.inf
    return float(abs(Fraction(found) - Fraction(due)) / Fraction(scale))


def _names(model: Model, lines: Iterable[Likelihood], reference: Reference) -> Iterator[Row]:
    """Whether the same classes, features, categories and tokens are known."""
    row = Row("names", 0.0, "")
    due: set[tuple[Any, ...]] = {("class", label) for label in reference.labels}
    due |= {("gaussian", name) for name in reference.gaussian.pooled}
    due |= {("bernoulli", name) for name in reference.bernoulli.known}
    due |= {("category", name, value) for name, values in reference.categorical.known.items() for value in values}
    due |= {("token", group, token) for group, counts in reference.counts.items() for token in counts.known}
    found = {("class", label) for label in model.classes} | {_key(line) for line in lines}
    for key in sorted(due ^ found, key=repr):
        row.largest += 1.0
        row.where = row.where or f"{'not in the model' if key in due else 'not in the events'}: {_spelled(key[1:])}"
    row.compared = len(due | found)
    yield row


def _key(line: Likelihood) -> tuple[Any, ...]:
    numbers = _any(line)
    if "mean" in numbers:
        return "gaussian", line.feature
    if "total" in numbers:
        return ("token", ALONE, line.feature) if line.value is None else ("token", line.feature, line.value)
    if line.value is None:
        return "bernoulli", line.feature
    return "category", line.feature, (type(line.value) is bool, line.value)


def _counts(model: Model, lines: Iterable[Likelihood], reference: Reference, fractional: bool) -> Iterator[Row]:
    """Whole counts must be equal; others are sums that were rounded."""
    exact = Row("counts", 0.0, "")
    rounded = Row("fractional counts", FRACTIONAL_COUNTS, "count")

    def note(found: float, due: Fraction, where: Callable[[], str]) -> None:
        if due.denominator == 1 and due < EXACT_BELOW and not fractional:
            exact.note(off(found, due, 1), where)
        else:
            rounded.note(off(found, due, due), where)

    weights = model.class_count
    for label in reference.labels:
        note(weights.get(label, math.nan), reference.weight.get(label, ZERO), lambda label=label: f"class {label}")  # type: ignore[misc]
    for line in lines:
        for label, numbers in line.numbers.items():
            for name, due in _due_counts(_key(line), label, reference).items():
                note(numbers[name], due, lambda line=line, label=label: _where(line, label))  # type: ignore[misc]
    yield exact
    yield rounded


def _due_counts(key: tuple[Any, ...], label: Any, reference: Reference) -> dict[str, Fraction]:
    match key:
        case "gaussian", name:
            cell = reference.gaussian.cells.get((name, label))
            return {"n": ZERO if cell is None else cell.n}
        case "bernoulli", name:
            flags = reference.bernoulli
            return {"count": flags.on.get((name, label), ZERO), "n": flags.n.get(label, ZERO)}
        case "category", name, value:
            categories = reference.categorical
            count = categories.count.get((name, value, label), ZERO)
            return {"count": count, "n": categories.n.get((name, label), ZERO)}
        case "token", group, token if group in reference.counts:
            counts = reference.counts[group]
            return {"count": counts.count.get((token, label), ZERO), "total": counts.total.get(label, ZERO)}
    return {}


def _moments(lines: Iterable[Likelihood], reference: Reference) -> Iterator[Row]:
    means = Row("means", ROUNDING, "mean or std")
    variances = Row("variances", ROUNDING, "variance")
    for line, label, numbers, cell in _cells(lines, reference):
        variance = cell.m2 / cell.n
        scale = max(abs(cell.mean), Fraction(math.sqrt(variance)))
        means.note(off(numbers["mean"], cell.mean, scale), lambda line=line, label=label: _where(line, label))  # type: ignore[misc]
        variances.note(off(numbers["variance"], variance, variance), lambda line=line, label=label: _where(line, label))  # type: ignore[misc]
    yield means
    yield variances


def _cells(
    lines: Iterable[Likelihood], reference: Reference
) -> Iterator[tuple[Likelihood, Any, Mapping[str, float], Cell]]:
    for line in lines:
        for label, numbers in line.numbers.items():
            cell = reference.gaussian.cells.get((line.feature, label))
            if "mean" in numbers and cell is not None and cell.n:
                yield line, label, numbers, cell


def _epsilon(model: Model, reference: Reference) -> Row:
    row, due = Row("epsilon", ROUNDING, "epsilon"), reference.gaussian.epsilon
    for block in model.blocks:
        if hasattr(block, "epsilon"):
            row.note(off(block.epsilon(), due, due), lambda: "")
    return row


def _priors(model: Model, reference: Reference) -> Row:
    row = Row("priors", ROUNDING, "prior")
    for label, found in model.class_log_prior().items():
        if label in reference.labels:
            power, due = reference.prior(label)
            p = ZERO if power else due
            row.note(off(math.exp(found), p, p), lambda label=label: f"class {label}")  # type: ignore[misc]
    return row


def _answers(model: Model, reference: Reference, sample: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    joints = Row("joint log-likelihoods", ROUNDING, "sum of its terms' magnitudes")
    posteriors = Row("posteriors", ROUNDING, "largest joint")
    for place, x in enumerate(sample):
        due = reference.joint(x)
        note_answers(joints, posteriors, model.joint_log_likelihood_one(x), model.predict_proba_one(x), due, place)
    yield joints
    yield posteriors


def note_answers(
    joints: Row,
    posteriors: Row,
    joint: Mapping[Any, float],
    probabilities: Mapping[Any, float],
    due: Mapping[Any, Joint],
    place: int,
) -> None:
    """Compare the answer to one event."""
    chances = posterior(due)
    scale = max([1.0, *(abs(one.log) for one in due.values() if math.isfinite(one.log))])
    for label, one in due.items():
        where = f"event {place + 1} of the sample, class {label}"
        joints.note(off(joint.get(label, math.nan), one.log, one.size), lambda where=where: where)  # type: ignore[misc]
        posteriors.note(off(probabilities.get(label, math.nan), chances[label], scale), lambda where=where: where)  # type: ignore[misc]


def _any(line: Likelihood) -> Mapping[str, float]:
    return next(iter(line.numbers.values()), {})


def _where(line: Likelihood, label: Any) -> str:
    return f"{_spelled((line.feature,) if line.value is None else (line.feature, line.value))}, class {label}"


def _spelled(names: tuple[Any, ...]) -> str:
    parts = [name[1] if isinstance(name, tuple) and len(name) == 2 else name for name in names if name is not None]
    return "=".join(map(str, parts))
