"""The drift detector is river's ADWIN, restored to the same behaviour, and bounded."""

import json
import random
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river.drift import ADWIN

from streamnb.drift import KEPT, LONGEST, Change, DriftDetector


def errors(seed: int, *stretches: tuple[int, float]) -> list[bool]:
    chance = random.Random(seed)
    return [chance.random() < share for events, share in stretches for _ in range(events)]


def whole(detector: DriftDetector) -> str:
    return json.dumps(detector.to_dict())


@pytest.mark.parametrize("seed", range(3))
def test_changes_are_found_where_river_finds_them(seed: int) -> None:
    stream = errors(seed, (2000, 0.1), (2000, 0.4), (2000, 0.1), (2000, 0.6))
    reference, expected = ADWIN(), []
    for index, error in enumerate(stream):
        reference.update(error)
        if reference.drift_detected:
            expected.append(index)
    assert [change.at for change in DriftDetector().update(stream)] == expected
    assert len(expected) >= 3


def test_a_change_says_from_what_to_what_though_it_is_noticed_later() -> None:
    (change,) = DriftDetector().update(errors(1, (3000, 0.1), (300, 0.5)))
    assert 3000 < change.at < 3200
    assert change.before == pytest.approx(0.1, abs=0.02)
    assert change.after == pytest.approx(0.5, abs=0.15)


def test_an_even_stream_shows_no_change() -> None:
    assert DriftDetector().update(errors(2, (2 * LONGEST, 0.15))) == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 700), st.sampled_from([0.0, 0.05, 0.3, 0.9])), min_size=1, max_size=5),
    st.lists(st.integers(0, 3500), max_size=6),
)
def test_batches_and_restarts_change_nothing(stretches: list[tuple[int, float]], cuts: list[int]) -> None:
    stream = errors(3, *stretches)
    once, parted = DriftDetector(), DriftDetector()
    found: list[Change] = []
    for begin, end in pairwise(sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})):
        parted = DriftDetector.from_dict(json.loads(whole(parted)))
        found += [change._replace(at=begin + change.at) for change in parted.update(stream[begin:end])]
    assert found == once.update(stream)
    assert whole(parted) == whole(once)


def test_one_restored_behind_the_bound_goes_on_as_the_saved_one() -> None:
    saved = DriftDetector()
    saved.update(errors(4, (LONGEST + 5, 0.1)))
    assert saved.to_dict()["events"] == KEPT + 5
    restored = DriftDetector.from_dict(saved.to_dict())
    later = errors(5, (3000, 0.1), (500, 0.4))
    assert restored.update(later) == saved.update(later) != []
    assert whole(restored) == whole(saved)


def test_the_state_stays_small() -> None:
    detector = DriftDetector()
    detector.update(errors(6, (LONGEST - 1, 0.2)))
    assert len(whole(detector)) < 6000


def test_the_daemon_loads_neither_pandas_nor_scikit_learn():
    looks = "import sys, streamnb.cli.wiring; print({'pandas', 'sklearn', 'scipy.stats'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", looks], text=True).strip() == "set()"
