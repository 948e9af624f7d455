"""Bytes that a learner holds once it has learned a large vocabulary."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from streamnb.bench.workloads import Array, Workload


def held_bytes(build: Callable[[], object]) -> int:
    """Return what is still allocated of what `build` allocates, as long as its result lives."""
    tracemalloc.start()
    try:
        result = build()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        del result
        return held
    finally:
        tracemalloc.stop()


def sklearn_held(workload: Workload, classes: Array) -> tuple[Any, dict[str, int]]:
    """Return a fitted estimator and the vocabulary that it cannot do without: the others hold names themselves."""
    assert workload.sklearn is not None
    estimator = workload.sklearn()
    estimator.partial_fit(workload.X, workload.y, classes=classes)
    vocabulary: dict[str, int] = {}
    for x, _ in workload.taught:
        for name in x:
            vocabulary.setdefault(name, len(vocabulary))
    return estimator, vocabulary


def memory_ratios(workload: Workload) -> tuple[int, int, int]:
    """Return the bytes held by streamnb, river and scikit-learn."""
    classes = np.unique(workload.y)
    for build in (workload.ours, workload.river):  # what is imported and compiled on first use is not held by a model
        build().learn_one(*workload.taught[0])
    return (
        held_bytes(lambda: workload.learned(workload.ours)),
        held_bytes(lambda: workload.learned(workload.river)),
        held_bytes(lambda: sklearn_held(workload, classes)),
    )
