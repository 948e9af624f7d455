"""What `streamnb explain` finds, and how it is told."""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamnb.cli.sources import Source
from streamnb.cli.tabulating import bar, number, shortened, table
from streamnb.errors import ConfigError, EventError, InputFileError
from streamnb.events import Decoder, Event, spelled_feature
from streamnb.learners.explaining import Explanation
from streamnb.transport import Partition, Record

BAR_WIDTH = 16
SHOWN_CLASSES = 10
SHORT_VALUE = 24


@dataclass(frozen=True, slots=True)
class Explained:
    """An answer, and the log odds of it against the runner-up as a sum. Nats throughout."""

    source: str
    n_events: int
    id: object
    label: str | None
    """None while no class is known."""
    against: str | None
    """The runner-up; None if only one class is known: then the terms are those of the joint log-likelihood."""
    probabilities: Mapping[str, float]
    """The most probable first."""
    prior: float
    features: Mapping[str, float]
    values: Mapping[str, str]
    """How the listed features read with their values, where these are short."""
    absent: float
    rest: float
    """Features that are not listed, and rounding."""
    unlisted: int
    total: float


def explained(source: Source, text: str, top: int) -> Explained:
    """Explain the answer to an event in JSON. Raise ConfigError or InputFileError if it cannot be used."""
    event = _event(source, text)
    model = source.model
    joint = model.joint_log_likelihood_one(event.x)
    chances = model.predict_proba_one(event.x)
    ranked = dict(sorted(((str(label), p) for label, p in chances.items()), key=lambda pair: -pair[1]))
    best = model.predict_one(event.x)
    if best is None:
        return Explained(source.name, model.n_events, event.id, None, None, {}, 0.0, {}, {}, 0.0, 0.0, 0, 0.0)
    rivals = [label for label in joint if label != best]
    rival = max(rivals, key=joint.__getitem__) if rivals else None
    shares = model.explain_one(event.x)
    nothing = Explanation(0.0, {}, 0.0, 0.0)
    mine, other = shares[best], nothing if rival is None else shares[rival]
    terms = {name: _less(nats, other.features.get(name, 0.0)) for name, nats in mine.features.items()}
    listed = sorted(terms, key=lambda name: -abs(terms[name]))[:top]
    total = _less(joint[best], 0.0 if rival is None else joint[rival])
    prior, absent = _less(mine.prior, other.prior), _less(mine.absent, other.absent)
    said = {spelled_feature(name): terms[name] for name in listed}
    return Explained(
        source=source.name,
        n_events=model.n_events,
        id=event.id,
        label=str(best),
        against=None if rival is None else str(rival),
        probabilities=ranked,
        prior=prior,
        features=said,
        values={spelled_feature(name): f"{name} = {event.x[name]}" for name in listed if _is_short(event.x.get(name))},
        absent=absent,
        rest=_remainder(total, [prior, absent, *said.values()]),
        unlisted=len(terms) - len(listed),
        total=total,
    )


def told_as_json(found: Explained) -> str:
    """One object; JSON cannot say infinity, which becomes null."""
    values = {
        "id": found.id,
        "label": found.label,
        "probabilities": found.probabilities,
        "against": found.against,
        "log_odds": _finite(found.total),
        "prior": _finite(found.prior),
        "features": [{"feature": name, "contribution": _finite(nats)} for name, nats in found.features.items()],
        "absent": _finite(found.absent),
        "rest": _finite(found.rest),
        "features_in_rest": found.unlisted,
        "model": {"source": found.source, "events": found.n_events},
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def told(found: Explained) -> str:
    """Tables for a person."""
    if found.label is None:
        return f"{found.source} has learned nothing yet: no class is known, so there is no answer"
    p = found.probabilities[found.label]
    lines = [f"{shortened(found.label)} (p = {number(p)}), says {found.source} after {found.n_events} events", ""]
    classes = [(label, number(p)) for label, p in list(found.probabilities.items())[:SHOWN_CLASSES]]
    lines += table(("class", "probability"), classes, right=(1,))
    if len(found.probabilities) > SHOWN_CLASSES:
        lines.append(f"and {len(found.probabilities) - SHOWN_CLASSES} less probable classes")
    return "\n".join([*lines, "", *_sum(found)])


def _sum(found: Explained) -> Iterable[str]:
    terms = [("prior", found.prior), *found.features.items()]
    if found.absent:
        terms.append(("absent", found.absent))
    others = f"rest ({found.unlisted} more features)" if found.unlisted else "rest (rounding)"
    terms.append((others, found.rest))
    largest = max((abs(nats) for _, nats in terms if math.isfinite(nats)), default=0.0)
    rows = [(found.values.get(name, name), _nats(nats), bar(nats, largest, BAR_WIDTH)) for name, nats in terms]
    if found.against is None:
        yield "only one class is known; these add up to its joint log-likelihood, in nats:"
        name = "= joint log-likelihood"
    else:
        yield (
            f"what speaks for {shortened(found.label or '')} (+) and for {shortened(found.against)}, "
            "the runner-up (-), in nats:"
        )
        name = "= log odds"
    yield from table(("", "nats", ""), [*rows, (name, _nats(found.total), "")], right=(1,))
    kinds = "prior + features + absent + rest" if found.absent else "prior + features + rest"
    if found.against is not None:
        ratio = math.exp(min(found.total, 700.0))
        yield f"{kinds} = log(P({shortened(found.label or '')}) / P({shortened(found.against)})) = log {ratio:.4g}"
        if found.absent:
            yield "absent: all known flags that this event leaves off"


def _event(source: Source, text: str) -> Event:
    from_stdin = text == "-"
    value = sys.stdin.buffer.read() if from_stdin else text.encode("utf-8", "surrogateescape")
    decoder = Decoder(source.event, source.limits, classes=None, needs_time=False, check=source.model.check)
    record = Record(Partition("argument", 0), 0, 0, None, None, value.strip())
    kind = InputFileError if from_stdin else ConfigError
    try:
        event = decoder.decode(record, "unlabelled")
        decoder.judge(event.x)
    except EventError as error:
        raise kind(f"event: {error.reason}: {error}") from error
    return event


def _less(a: float, b: float) -> float:
    """Their difference; equal infinities cancel."""
    return 0.0 if a == b else a - b


def _remainder(total: float, terms: Iterable[float]) -> float:
    values = [total, *(-term for term in terms)]
    if not all(map(math.isfinite, values)):
        return 0.0
    return math.fsum(values)


def _nats(value: float) -> str:
    text = f"{value:+.4f}"
    return "0.0000" if float(text) == 0.0 else text


def _is_short(value: object) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= SHORT_VALUE


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
