"""Every figure of `streamnb bench learners`, measured in one run."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from streamnb.bench import goals, peers, workloads
from streamnb.bench.goals import COLUMNS, GOALS, Result
from streamnb.bench.memory import memory_ratios
from streamnb.bench.timing import Comparison, Effort, Spread, Task, compare, measure, no_collections, once
from streamnb.bench.workloads import Workload

FULL = Effort(chunk_seconds=0.01, seconds=0.4, most_repeats=25)
QUICK = Effort(chunk_seconds=0.002, seconds=0.03, most_repeats=5)
SLOW = ("complement", "Bernoulli")
"""river reads the whole vocabulary for each event of these."""
SMALL, LARGE, HUGE = 20_000, 200_000, 2_000_000
MICRO = 1e6


def everything(quick: bool, compiled_peers: bool) -> Iterator[Result]:
    """Yield each figure as soon as it is known."""
    with no_collections():
        yield from _everything(QUICK if quick else FULL, quick, compiled_peers)


def _everything(effort: Effort, quick: bool, compiled_peers: bool) -> Iterator[Result]:
    for workload in (workloads.gaussian(8, 2), workloads.gaussian(30, 10)):
        yield from _row(workload, effort)
        yield from _batch(workload, effort)
        if compiled_peers and (jar := peers.moa_jar()):
            yield _shown(workload.name, "test-then-train of MOA", Spread.of(peers.moa_seconds(jar, workload)))
    for learner in workloads.TEXT_LEARNERS:
        small, large = workloads.text(learner, SMALL), workloads.text(learner, LARGE)
        if learner in SLOW:
            yield from _slow_rows(small, large, effort, quick)
            continue
        yield from _row(small, effort)
        yield from _row(large, effort)
        yield from _batch(small, effort)
        if compiled_peers and (program := peers.vw_program()):
            yield _shown(small.name, "test-then-train of Vowpal Wabbit", Spread.of(peers.vw_seconds(program, small)))
        yield from _memory(large, small if quick else large)
    for workload in (workloads.categorical(), workloads.mixed()):
        yield from _row(workload, effort)
    yield from _vocabulary(effort, quick)


def missing_peers() -> list[str]:
    """Return which compiled peers are not there to be run."""
    missing = [] if peers.moa_jar() else [f"MOA (java, and ${peers.MOA_JAR} naming its jar)"]
    return missing + ([] if peers.vw_program() else ["Vowpal Wabbit (vw)"])


# -- the table ------------------------------------------------------------------------------------------------


def _row(workload: Workload, effort: Effort) -> Iterator[Result]:
    ours, river = workload.learned(workload.ours), workload.learned(workload.river)
    for column, task in zip(COLUMNS, (_predicting, _learning, _testing), strict=False):
        yield _ratio(workload.name, column, compare(task(ours, workload), task(river, workload), effort))
    yield from _arrays(workload, effort)


def _slow_rows(small: Workload, large: Workload, effort: Effort, quick: bool) -> Iterator[Result]:
    """Yield both rows of a learner of which river takes seconds for one prediction: one is all that is timed.

    In a quick run the one with the large vocabulary is taken to cost as much more as its vocabulary is larger.
    """
    river = small.learned(small.river)
    seconds = once(_predicting(river, small))
    yield from _slow_row(small, river, seconds, effort, "one event of river")
    if quick:
        seconds = seconds.times(LARGE / SMALL)
        yield from _slow_row(large, river, seconds, effort, f"river: {LARGE // SMALL} times V = {SMALL // 1000}k")
    else:
        river = large.learned(large.river)
        yield from _slow_row(large, river, once(_predicting(river, large)), effort, "one event of river")


def _slow_row(workload: Workload, river: Any, seconds: Spread, effort: Effort, note: str) -> Iterator[Result]:
    ours = workload.learned(workload.ours)
    predicting = measure(_predicting(ours, workload), effort)
    learning = compare(_learning(ours, workload), _learning(river, workload), effort)
    testing = measure(_testing(ours, workload), effort)
    both = Spread.of(seconds.median + learning.peer.median)
    yield _ratio(workload.name, COLUMNS[0], Comparison.of(predicting, seconds), note)
    yield _ratio(workload.name, COLUMNS[1], learning)
    yield _ratio(workload.name, COLUMNS[2], Comparison.of(testing, both), note)
    yield from _arrays(workload, effort)


def _arrays(workload: Workload, effort: Effort) -> Iterator[Result]:
    """Yield what is compared with scikit-learn, on arrays of 1000 rows."""
    if workload.sklearn is None:
        return
    X, y = workload.X, workload.y
    ours, estimator = workload.ours(), workload.sklearn()
    ours.learn_many(X, y)
    estimator.partial_fit(X, y, classes=np.unique(y))
    for column, mine, its in (
        (COLUMNS[3], lambda: ours.learn_many(X, y), lambda: estimator.partial_fit(X, y)),
        (COLUMNS[4], lambda: ours.predict_proba_many(X), lambda: estimator.predict_proba(X)),
    ):
        yield _ratio(workload.name, column, compare(_at_once(mine, len(y)), _at_once(its, len(y)), effort))


# -- beside the table -----------------------------------------------------------------------------------------


def _batch(workload: Workload, effort: Effort) -> Iterator[Result]:
    """Yield test-then-train of a whole array, beside the same event by event in the peers."""
    assert workload.sklearn is not None
    X, y = workload.X, workload.y
    river, estimator = workload.learned(workload.river), workload.sklearn()
    ours = workload.ours()
    ours.learn_many(X, y)
    estimator.partial_fit(X, y, classes=np.unique(y))

    def row_by_row(n: int) -> None:
        for i in range(n):
            estimator.predict_proba(X[i : i + 1])
            estimator.partial_fit(X[i : i + 1], y[i : i + 1])

    batch = _at_once(lambda: ours.predict_proba_learn_many(X, y), len(y))
    by_river = compare(batch, _testing(river, workload), effort)
    yield _ratio(workload.name, goals.BATCH_RIVER[0], by_river, goal=goals.BATCH_RIVER[1])
    by_sklearn = compare(batch, Task(row_by_row, len(y)), effort)
    yield _ratio(workload.name, goals.BATCH_SKLEARN[0], by_sklearn, goal=goals.BATCH_SKLEARN[1])
    reference = goals.MICROSECONDS[workload.name]
    yield _shown(workload.name, "predict_proba_learn_many, array", by_river.ours, reference)
    model = workload.learned(workload.ours)
    rows = model.rows()

    def engine() -> None:
        rows.clear()
        for x, label in workload.events:
            rows.append(x, label)
        model.predict_learn_rows(rows)

    seconds = measure(_at_once(engine, len(workload.events)), effort)
    yield _shown(workload.name, "rows of mappings, as the engine", seconds, reference)


def _memory(workload: Workload, learned: Workload) -> Iterator[Result]:
    ours, river, sklearn = memory_ratios(learned)
    note = "bytes" if learned is workload else f"bytes; V = {SMALL // 1000}k only"
    for (column, goal), peer in ((goals.MEMORY_RIVER, river), (goals.MEMORY_SKLEARN, sklearn)):
        ratio = ours / peer
        yield Result(workload.name, column, ratio, ratio, ratio, goal, float(ours), float(peer), note)


def _vocabulary(effort: Effort, quick: bool) -> Iterator[Result]:
    """Yield what an event costs with a huge vocabulary, over what it costs with a small one."""
    n_words = LARGE if quick else HUGE
    for learner in workloads.TEXT_LEARNERS:
        small, huge = (_many_words(learner, n) for n in (SMALL, n_words))
        note = f"to {LARGE // 1000}k only" if quick else ""
        name, goal = goals.VOCABULARY
        yield _ratio(
            f"{learner}, {workloads.TOKENS} tokens, 20 classes", name, compare(huge, small, effort), note, goal
        )


def _many_words(learner: str, n_words: int, n_classes: int = 20) -> Task:
    """Return test-then-train of a model that knows this many words."""
    random = np.random.default_rng(5)
    model = workloads.TEXT_LEARNERS[learner][0]()
    columns = random.permutation(n_words)
    starts = np.linspace(0, n_words, n_classes + 1).astype(np.int64)
    y = np.array([f"class {c}" for c in range(n_classes)])
    model.learn_many(csr_matrix((np.ones(n_words), columns, starts), (n_classes, n_words)), y)
    X = workloads.documents(random, workloads.N_EVENTS, n_words)
    rows = [dict.fromkeys(X.indices[i : i + workloads.TOKENS].tolist(), 1) for i in X.indptr[:-1]]
    events = [(x, f"class {i % n_classes}") for i, x in enumerate(rows)]
    return _testing_on(model, events)


# -- tasks ----------------------------------------------------------------------------------------------------


def _predicting(model: Any, workload: Workload) -> Task:
    events, predict = workload.events, model.predict_proba_one

    def run(n: int) -> None:
        for x, _ in events[:n]:
            predict(x)

    return Task(run, len(events))


def _learning(model: Any, workload: Workload) -> Task:
    events, learn = workload.events, model.learn_one

    def run(n: int) -> None:
        for x, y in events[:n]:
            learn(x, y)

    return Task(run, len(events))


def _testing(model: Any, workload: Workload) -> Task:
    return _testing_on(model, workload.events)


def _testing_on(model: Any, events: list[workloads.Event]) -> Task:
    predict, learn = model.predict_proba_one, model.learn_one

    def run(n: int) -> None:
        for x, y in events[:n]:
            predict(x)
            learn(x, y)

    return Task(run, len(events))


def _at_once(run: Callable[[], object], n_events: int) -> Task:
    return Task(lambda _: run(), n_events, whole=True)


# -- results --------------------------------------------------------------------------------------------------


def _ratio(row: str, column: str, comparison: Comparison, note: str = "", goal: float | None = None) -> Result:
    if column in COLUMNS:
        goal = GOALS[row][COLUMNS.index(column)]
    ratio = comparison.ratio
    ours, peer = MICRO * comparison.ours.median, MICRO * comparison.peer.median
    return Result(row, column, ratio.median, ratio.low, ratio.high, goal, ours, peer, note)


def _shown(row: str, column: str, seconds: Spread, reference: tuple[str, float] | None = None) -> Result:
    micro = seconds.times(MICRO)
    note = "us per event" + (f"; {reference[0]}: {reference[1]:g}" if reference else "")
    return Result(row, column, micro.median, micro.low, micro.high, ours=micro.median, note=note)
