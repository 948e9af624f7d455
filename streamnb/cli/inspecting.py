"""What `streamnb inspect` finds in a snapshot, and how it is told."""

import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from streamnb.cli.sources import Source, source_of
from streamnb.cli.tabulating import number, shortened, table
from streamnb.errors import ConfigError, OutputClosed
from streamnb.learners.block import Likelihood
from streamnb.reports import ScoresView, TopFeature
from streamnb.scores import Scores
from streamnb.top_features import spelled, top_features

MOST_COLUMNS = 6
"""Classes that still have a column each."""
COLUMNS = ("feature", "value", "class", "n", "count", "total", "p", "mean", "variance", "std")
NUMBERS = COLUMNS[3:]


@dataclass(frozen=True, slots=True)
class Inspected:
    """A snapshot's model in numbers, of the class and feature that were asked for."""

    source: Source
    priors: Mapping[str, tuple[float, float]]
    """Of every class: summed weight of its events, and prior."""
    classes: Sequence[str]
    strongest: Mapping[str, Sequence[TopFeature]]
    lines: Sequence[Likelihood]
    """The likelihood tables, with labels as text."""
    feature: str | None
    epsilon: float | None
    """What is added to every variance; None without numbers."""
    scores: Scores | None

    @property
    def view(self) -> ScoresView:
        return ScoresView() if self.scores is None else self.scores.view()


def inspected(path: Path, top: int, label: str | None, feature: str | None) -> Inspected:
    """Read a snapshot. Raise ConfigError for a class or feature that its model does not know."""
    source = source_of(path)
    model = source.model
    logs, weights = model.class_log_prior(), model.class_count
    priors = {str(known): (weights[known], math.exp(log)) for known, log in logs.items()}
    if label is not None and label not in priors:
        raise ConfigError(f"class {label!r}: not known; {_known(priors)}")
    classes = list(priors) if label is None else [label]
    lines = [
        Likelihood(line.feature, line.value, {str(known): numbers for known, numbers in line.numbers.items()})
        for line in model.likelihood_table()
    ]
    if feature is not None:
        names = {str(line.feature) for line in lines}
        lines = [line for line in lines if feature in (str(line.feature), spelled(line.feature, line.value))]
        if not lines:
            raise ConfigError(f"feature {feature!r}: not known; {_known(sorted(names))}")
    strongest = top_features(model, top)
    return Inspected(
        source=source,
        priors=priors,
        classes=classes,
        strongest={name: strongest[name] for name in classes if name in strongest},
        lines=lines,
        feature=feature,
        epsilon=next((block.epsilon() for block in model.blocks if hasattr(block, "epsilon")), None),
        scores=_scores(source),
    )


def log_ratio(found: TopFeature) -> float:
    """Log-likelihood of one occurrence in the class against all others; of a number, on average over its events."""
    return found.nats if found.measure == "mean" else math.log(found.here / found.elsewhere)


def main_lines(found: Inspected, limit: int) -> list[Likelihood]:
    """The lines of the features that say most about any class, at most `limit`; all if one feature was asked for."""
    if found.feature is not None:
        return list(found.lines)
    ranked = sorted((best for features in found.strongest.values() for best in features), key=lambda best: -best.nats)
    names = list(dict.fromkeys(best.name for best in ranked))[:limit]
    return [line for line in found.lines if spelled(line.feature, line.value) in names]


def told(found: Inspected, limit: int | None = None) -> Iterator[str]:
    """Tables for a person."""
    yield from _head(found)
    yield ""
    rows = [(name, number(weight), number(prior)) for name, (weight, prior) in found.priors.items()]
    yield from table(("class", "weight", "prior"), rows, right=(1, 2))
    if found.feature is None:
        yield from _strongest(found)
    yield from _tables(found, limit or max(map(len, found.strongest.values()), default=0))


def told_as_json(found: Inspected) -> str:
    """Everything as one object; JSON cannot say infinity, which becomes null."""
    snapshot, model = found.source.snapshot, found.source.model
    values = {
        "snapshot": {
            "file": found.source.name,
            "app": snapshot.app,
            "instance": snapshot.instance,
            "version": snapshot.version,
            "taken": snapshot.taken,
            "learned": {str(partition): offset for partition, offset in snapshot.learned.items()},
            "lost_events": snapshot.lost,
            "seed": snapshot.seed or None,
        },
        "model": {
            "kind": model.kind,
            "options": {name: _plain(option) for name, option in model.options.items()},
            "events": model.n_events,
            "features": model.n_features,
            "epsilon": found.epsilon,
        },
        "classes": {name: {"weight": found.priors[name][0], "prior": found.priors[name][1]} for name in found.classes},
        "strongest": {
            name: [asdict(feature) | {"log_ratio": log_ratio(feature)} for feature in features]
            for name, features in found.strongest.items()
        },
        "likelihoods": [_record(found, line) for line in found.lines],
        "scores": _scores_as_json(found),
    }
    return json.dumps(_finite(values), ensure_ascii=False, allow_nan=False)


def write_csv(found: Inspected) -> None:
    """Write the likelihood tables to standard output. Raise OutputClosed if its reader has gone."""
    try:
        _write_rows(found)
        sys.stdout.flush()
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes what is left when it ends
        raise OutputClosed("standard output is closed") from error


def _write_rows(found: Inspected) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in found.lines:
        for name in found.classes:
            numbers = with_std(line.numbers[name])
            value = "" if line.value is None else line.value
            writer.writerow([line.feature, value, name, *(numbers.get(column, "") for column in NUMBERS)])


def with_std(numbers: Mapping[str, float]) -> dict[str, float]:
    """The numbers of one class, and the standard deviation where there is a variance."""
    return dict(numbers) | ({"std": math.sqrt(numbers["variance"])} if "variance" in numbers else {})


def _head(found: Inspected) -> Iterator[str]:
    snapshot, model, view = found.source.snapshot, found.source.model, found.view
    taken = datetime.fromtimestamp(snapshot.taken, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    learned = ", ".join(f"{partition} to {offset}" for partition, offset in sorted(snapshot.learned.items()))
    epsilon = "" if found.epsilon is None else f", epsilon {number(found.epsilon)}"
    options = ", ".join(f"{name} {_plain(option)}" for name, option in model.options.items() if option is not None)
    yield found.source.name
    yield f"snapshot  app {snapshot.app}, instance {snapshot.instance}, streamnb {snapshot.version}, taken {taken}"
    yield f"learned   {learned or 'nothing yet'}"
    if snapshot.seed:
        yield f"began     with the converted scikit-learn model {snapshot.seed}"
    yield f"model     {model.kind}: {model.n_events} events, {model.n_features} features{epsilon}"
    yield f"options   {options}"
    if view.evaluated:
        yield (
            f"scores    {view.evaluated} events predicted before they were learned: "
            f"accuracy {view.correct / view.evaluated:.2%} "
            f"(majority class {view.majority_correct / view.evaluated:.2%}), "
            f"log loss {view.log_loss_nats / view.evaluated:.4f} nats, Brier {view.brier / view.evaluated:.4f}"
        )


def _strongest(found: Inspected) -> Iterator[str]:
    if len(found.classes) > MOST_COLUMNS:
        yield ""
        yield "what speaks most for each class (log-likelihood ratio against all others, in nats; --class for more):"
        rows = [
            (name, ", ".join(f"{shortened(f.name, 20)} {log_ratio(f):+.1f}" for f in features[:3]))
            for name, features in found.strongest.items()
        ]
        yield from _wide(rows)
        return
    for name, features in found.strongest.items():
        yield ""
        yield (
            f"what speaks most for {shortened(name)} (log-likelihood ratio against all others, and what that brings "
            "to one of its events or tokens on average, in nats):"
        )
        rows5 = [
            (f.name, f"{log_ratio(f):+.4f}", number(f.nats), number(f.here), number(f.elsewhere)) for f in features
        ]
        yield from table(("feature", "log ratio", "average", "here", "elsewhere"), rows5, right=(1, 2, 3, 4))


def _wide(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max((len(shortened(name)) for name, _ in rows), default=0)
    yield from (f"{shortened(name):{width}}  {words}" for name, words in rows)


def _tables(found: Inspected, limit: int) -> Iterator[str]:
    lines = main_lines(found, limit)
    if not lines:
        return
    yield ""
    if len(found.classes) > MOST_COLUMNS and found.feature is None:
        yield f"{len(found.lines)} lines of likelihoods: choose with --feature or --class, or --csv for all of them"
        return
    whose = "all other classes'" if found.source.model.kind == "complement" else "each class's"
    yield f"{whose} likelihoods ({len(lines)} of {len(found.lines)} lines; --csv has all):"
    for keys in dict.fromkeys(tuple(_shown_columns(line)) for line in lines):
        same = [line for line in lines if tuple(_shown_columns(line)) == keys]
        rows = [
            (str(line.feature), "" if line.value is None else str(line.value), name,
             *(number(with_std(line.numbers[name])[key]) for key in keys))
            for line in same
            for name in found.classes
        ]  # fmt: skip
        yield from table(("feature", "value", "class", *keys), rows, right=range(3, 3 + len(keys)))


def _shown_columns(line: Likelihood) -> list[str]:
    numbers = next(iter(line.numbers.values()), {})
    order = ("mean", "std", "n") if "mean" in numbers else ("p", "count", "total", "n")
    return [name for name in order if name in with_std(numbers)]


def _record(found: Inspected, line: Likelihood) -> dict[str, object]:
    classes = {name: with_std(line.numbers[name]) for name in found.classes}
    return {"feature": str(line.feature), "value": line.value, "classes": classes}


def _scores(source: Source) -> Scores | None:
    """The scores, None if another version wrote them in a form that this one does not read."""
    try:
        return Scores.from_dict(source.snapshot.scores)
    except (ValueError, KeyError, TypeError):
        return None


def _scores_as_json(found: Inspected) -> object:
    if found.scores is None:
        return None
    confusion = found.scores.confusion()
    return asdict(found.view) | {"confusion": asdict(confusion)}


def _known(names: Iterable[str]) -> str:
    some = list(names)
    return f"known are {', '.join(map(shortened, some[:10]))}{f' and {len(some) - 10} more' if len(some) > 10 else ''}"


def _plain(option: object) -> object:
    return dict(option) if isinstance(option, Mapping) else list(option) if isinstance(option, tuple) else option


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
