"""A picture of a model: what each feature says, the words of each class, and how well it has predicted.

Up to ten classes are lines and bars in colours; more are rows of a heat map. matplotlib is optional.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamnb.cli.inspecting import Inspected, log_ratio, main_lines
from streamnb.cli.tabulating import shortened
from streamnb.errors import ConfigError
from streamnb.learners.block import Likelihood
from streamnb.snapshots import write_whole
from streamnb.top_features import spelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Floats = NDArray[np.float64]

MOST_COLOURS = 10
MOST_CLASSES = 50
MOST_FEATURES = 8
MOST_VALUES = 20
MOST_WORDS = 8
WORD_COLUMNS = 5
POINTS = 400
WIDTH = 15.0
LABEL_LENGTH = 18
ENDINGS = (".png", ".svg", ".pdf")


def draw(found: Inspected, path: Path) -> None:
    """Write the picture. Raise ConfigError if matplotlib is missing or the ending is unknown."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise ConfigError("--plot needs matplotlib: pip install 'streamnb[plot]'") from missing
    if path.suffix not in ENDINGS:
        raise ConfigError(f"--plot {path}: allowed are files that end in {', '.join(ENDINGS)}")
    heaviest = sorted(found.classes, key=lambda name: -found.priors[name][0])[:MOST_CLASSES]
    classes = [name for name in found.classes if name in heaviest]
    parts = [*_score_parts(found, classes), *_feature_parts(found, classes), *_word_parts(found, classes)]
    with matplotlib.rc_context({"font.size": 9, "axes.titlesize": 10}):
        figure = Figure(figsize=(WIDTH, 0.6 + sum(height for height, _ in parts)), layout="constrained", dpi=110)
        model, left_out = found.source.model, len(found.classes) - len(classes)
        fewer = f" ({left_out} smaller classes are left out)" if left_out else ""
        figure.suptitle(f"{model.kind} model of {found.source.snapshot.app}, {model.n_events} events{fewer}")
        rows = figure.subfigures(len(parts), 1, height_ratios=[height for height, _ in parts], squeeze=False)
        for (_, paint), row in zip(parts, rows[:, 0], strict=True):
            paint(row)
        _save(figure, path)


Part = tuple[float, Callable[["SubFigure"], None]]
"""Inches of height, and what fills them."""


def _save(figure: "Figure", path: Path) -> None:
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:])
    write_whole(path, (drawn.getvalue(),))


def _score_parts(found: Inspected, classes: Sequence[str]) -> list[Part]:
    """The classes' shares, calibration and confusion, side by side."""

    def paint(row: "SubFigure") -> None:
        left, middle, right = row.subplots(1, 3)
        _shares(left, found, classes)
        _calibration(middle, found)
        _confusion(right, found)

    return [(max(3.6, 0.13 * len(classes)), paint)]


def _shares(axes: "Axes", found: Inspected, classes: Sequence[str]) -> None:
    axes.barh(range(len(classes)), [found.priors[name][1] for name in classes], color="tab:gray")
    axes.set_title("prior of each class")
    _class_ticks(axes, classes)
    axes.invert_yaxis()


def _calibration(axes: "Axes", found: Inspected) -> None:
    bins = [held for held in found.view.calibration if held.events]
    if not bins:
        _nothing(axes, "no event was scored")
        return
    events = np.array([held.events for held in bins])
    x = [held.confidence / held.events for held in bins]
    axes.plot([0, 1], [0, 1], color="tab:gray", linewidth=1, linestyle=":")
    axes.plot(x, [held.correct / held.events for held in bins], color="tab:blue", linewidth=1)
    axes.scatter(x, [held.correct / held.events for held in bins], s=20 + 180 * events / events.max(), alpha=0.8)
    axes.set(xlabel="probability of the answer", ylabel="share of right answers", xlim=(0, 1.03), ylim=(0, 1.05))
    axes.set_title(f"calibration of {events.sum()} predictions (size: how many)")


def _confusion(axes: "Axes", found: Inspected) -> None:
    confusion = None if found.scores is None else found.scores.confusion()
    counts = np.array(confusion.counts if confusion else [], float).reshape(
        -1, len(confusion.counts) if confusion else 0
    )
    if confusion is None or not counts.any():
        _nothing(axes, "no event was scored")
        return
    names = [*confusion.classes, "others"]
    if not (counts[-1].any() or counts[:, -1].any()):
        names, counts = names[:-1], counts[:-1, :-1]
    order = sorted(range(len(names)), key=lambda place: (names[place] == "others", names[place]))
    names, counts = [names[place] for place in order], counts[np.ix_(order, order)]
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set(title="confusion: shares of each actual class", xlabel="answered", ylabel="actual")
    _class_ticks(axes, names)
    _class_ticks(axes, names, across=True)
    if len(names) <= MOST_COLOURS:
        for (row, column), share in np.ndenumerate(shares):
            colour = "white" if share > 0.5 else "black"
            axes.text(column, row, f"{int(counts[row, column])}", ha="center", va="center", color=colour, fontsize=8)


def _feature_parts(found: Inspected, classes: Sequence[str]) -> list[Part]:
    """A row for each feature that is no word: P(x | class), and P(class | x) under equal and under learned priors."""
    grouped: dict[Any, list[Likelihood]] = {}
    for line in found.lines:
        if not _is_word(line):
            grouped.setdefault((str(line.feature), "mean" in line.numbers[classes[0]]), []).append(line)
    if found.feature is None:
        ranked = [str(line.feature) for line in main_lines(found, 10 * MOST_FEATURES) if not _is_word(line)]
        strongest = {str(line.feature): 0 for line in found.lines if str(line.feature) in ranked}
        kept = sorted(grouped, key=lambda key: key[0] not in strongest)[:MOST_FEATURES]
        grouped = {key: lines for key, lines in grouped.items() if key in kept}
    height = 2.7 if len(classes) <= MOST_COLOURS else max(3.4, 0.12 * len(classes))
    return [(height, _feature_painter(found, classes, lines)) for lines in grouped.values()]


def _feature_painter(
    found: Inspected, classes: Sequence[str], lines: Sequence[Likelihood]
) -> Callable[["SubFigure"], None]:
    name = shortened(str(lines[0].feature))
    learned = np.array([found.priors[label][1] for label in classes])
    paint_values = _lines if "mean" in lines[0].numbers[classes[0]] else _bars

    def paint(row: "SubFigure") -> None:
        x, log_likelihood = _log_likelihoods(lines, classes)
        equal = np.full(len(classes), 1.0 / len(classes))
        titles = [f"P({name} | class)", f"P(class | {name}), equal priors", f"P(class | {name}), learned priors"]
        values = [np.exp(log_likelihood), _posterior(log_likelihood, equal), _posterior(log_likelihood, learned)]
        panels = row.subplots(1, 3)
        for place, (axes, title, shown) in enumerate(zip(panels, titles, values, strict=True)):
            axes.set_title(title)
            if len(classes) > MOST_COLOURS:
                _heat(row, axes, x, shown, classes)
            else:
                paint_values(axes, x, shown, classes, place > 0)
        if len(classes) <= MOST_COLOURS:
            panels[0].legend(fontsize=7, loc="best")

    return paint


def _log_likelihoods(lines: Sequence[Likelihood], classes: Sequence[str]) -> tuple[Any, Floats]:
    """Where the feature is looked at, and its log-likelihood there, (n_classes, n_points)."""
    if "mean" in lines[0].numbers[classes[0]]:
        cells = [lines[0].numbers[label] for label in classes]
        mean = np.array([cell["mean"] for cell in cells])[:, None]
        variance = np.maximum([cell["variance"] for cell in cells], 1e-300)[:, None]
        spread = 3.5 * np.sqrt(variance)
        x = np.linspace((mean - spread).min(), (mean + spread).max() or 1.0, POINTS)
        return x, -0.5 * (np.log(2 * math.pi * variance) + (x - mean) ** 2 / variance)
    if lines[0].value is None:
        on = np.array([lines[0].numbers[label]["p"] for label in classes])
        values, p = ["off", "on"], np.stack([1.0 - on, on], axis=1)
    else:
        often = sorted(lines, key=lambda line: -sum(numbers["count"] for numbers in line.numbers.values()))
        kept = [line for line in lines if line in often[:MOST_VALUES]]
        values = [shortened(str(line.value), LABEL_LENGTH) for line in kept]
        p = np.array([[line.numbers[label]["p"] for line in kept] for label in classes])
    with np.errstate(divide="ignore"):
        return values, np.log(p)


def _posterior(log_likelihood: Floats, priors: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = log_likelihood + np.log(priors)[:, None]
        top = joint.max(axis=0)
        weights = np.exp(joint - np.where(np.isfinite(top), top, 0.0))
        shares: Floats = weights / weights.sum(axis=0)
    return shares


def _lines(axes: "Axes", x: Any, values: Floats, classes: Sequence[str], is_posterior: bool) -> None:
    for place, (label, y) in enumerate(zip(classes, values, strict=True)):
        axes.plot(x, y, color=f"C{place}", label=shortened(label, LABEL_LENGTH), linewidth=1.3)
        if not is_posterior:
            axes.fill_between(x, y, color=f"C{place}", alpha=0.12)
    axes.set_ylim(0, 1.03 if is_posterior else None)
    axes.margins(x=0)


def _bars(axes: "Axes", x: Any, values: Floats, classes: Sequence[str], is_posterior: bool) -> None:
    places, width = np.arange(len(x)), 0.8 / len(classes)
    below = np.zeros(len(x))
    for place, (label, y) in enumerate(zip(classes, values, strict=True)):
        colour, name = f"C{place}", shortened(label, LABEL_LENGTH)
        if is_posterior:
            axes.bar(places, y, 0.8, bottom=below, color=colour, label=name)
            below = below + y
        else:
            axes.bar(places + (place - (len(classes) - 1) / 2) * width, y, width, color=colour, label=name)
    axes.set_xticks(places, x, rotation=30 if len(x) > 5 else 0, ha="right" if len(x) > 5 else "center", fontsize=7)
    axes.set_ylim(0, 1.03 if is_posterior else None)


def _heat(row: "SubFigure", axes: "Axes", x: Any, values: Floats, classes: Sequence[str]) -> None:
    """One row of colours for each class; densities, whose peaks differ by magnitudes, each relative to its peak."""
    density = not isinstance(x, list)
    extent = (x[0], x[-1], len(classes) - 0.5, -0.5) if density else None
    scale = values / values.max(axis=1, keepdims=True) if density and values.max() > 1.0 else values
    image = axes.imshow(scale, aspect="auto", cmap="viridis", extent=extent, interpolation="nearest", vmin=0.0)
    if not density:
        axes.set_xticks(range(len(x)), x, rotation=30 if len(x) > 5 else 0, fontsize=7)
    _class_ticks(axes, classes)
    row.colorbar(image, ax=axes, pad=0.01)


def _word_parts(found: Inspected, classes: Sequence[str]) -> list[Part]:
    """A small panel for each class with the words that say most for it."""
    words = {spelled(line.feature, line.value) for line in found.lines if _is_word(line)}
    shown = {label: [f for f in found.strongest.get(label, ()) if f.name in words][:MOST_WORDS] for label in classes}
    drawn = [label for label in classes if shown[label]]
    if not drawn or found.feature is not None:
        return []
    columns = min(WORD_COLUMNS, len(drawn))
    n_rows = math.ceil(len(drawn) / columns)
    kinds: Mapping[str, int] = {label: place for place, label in enumerate(classes)}

    def paint(row: "SubFigure") -> None:
        row.suptitle("words that say most for each class: log-likelihood ratio against all others, nats", fontsize=10)
        panels = row.subplots(n_rows, columns, squeeze=False).ravel()
        for axes, label in zip(panels, drawn, strict=False):
            features = shown[label]
            colour = f"C{kinds[label] % MOST_COLOURS}" if len(classes) <= MOST_COLOURS else "tab:gray"
            axes.barh(range(len(features)), [log_ratio(f) for f in features], color=colour)
            names = [shortened(f.name.partition("=")[2] or f.name, LABEL_LENGTH) for f in features]
            axes.set_yticks(range(len(features)), names, fontsize=7)
            axes.tick_params(axis="x", labelsize=7)
            axes.invert_yaxis()
            axes.set_title(shortened(label, 24), fontsize=9)
        for axes in panels[len(drawn) :]:
            axes.set_axis_off()

    return [(0.4 + n_rows * (0.5 + 0.17 * max(len(some) for some in shown.values())), paint)]


def _is_word(line: Likelihood) -> bool:
    return "total" in next(iter(line.numbers.values()))


def _class_ticks(axes: "Axes", classes: Sequence[str], across: bool = False) -> None:
    size = 8 if len(classes) <= MOST_COLOURS else 6
    names = [shortened(name, LABEL_LENGTH) for name in classes]
    if across:
        axes.set_xticks(range(len(classes)), names, rotation=90 if len(classes) > 4 else 0, fontsize=size)
    else:
        axes.set_yticks(range(len(classes)), names, fontsize=size)


def _nothing(axes: "Axes", why: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", color="tab:gray")
