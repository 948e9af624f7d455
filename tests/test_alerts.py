"""The alert rules wake somebody for the right reasons, and for no other: each test is a story that Prometheus sees."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.stories import (
    DAY,
    HOUR,
    MINUTE,
    RULES,
    Level,
    Series,
    clock,
    fired,
    from_,
    gone,
    instance,
    quiet,
    restarted,
    rising,
    still,
    zero,
)

ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}

LAG, LABELLED_LAG = 'streamnb_lag_events{topic="t",partition="0"}', 'streamnb_lag_events{topic="l",partition="0"}'
PUBLISHED = 'streamnb_published_offset{topic="t",partition="0"}'
PUBLISHED_LABELLED = 'streamnb_published_offset{topic="l",partition="0"}'
LEARNED = 'streamnb_learned_offset{topic="l",partition="0"}'
OWNED, REMAINING = "streamnb_partitions_owned", "streamnb_restore_remaining_events"
RUNNING, RESTORING = 'streamnb_state{state="running"}', 'streamnb_state{state="restoring"}'
OK = 'streamnb_events_total{role="unlabelled",outcome="ok"}'
DEAD = 'streamnb_events_total{role="unlabelled",outcome="dead"}'
LABELLED_OK = 'streamnb_events_total{role="labelled",outcome="ok"}'
COMMITTED, ABORTED = (f'streamnb_transactions_total{{outcome="{o}"}}' for o in ("committed", "aborted"))
LAST_COMMIT, SNAPSHOT_TIME = "streamnb_last_commit_timestamp_seconds", "streamnb_snapshot_timestamp_seconds"
DAMAGED = 'streamnb_snapshots_total{outcome="damaged"}'
ASSIGNED = 'streamnb_rebalances_total{kind="assigned"}'
UPSTREAM = 'streamnb_open_upstream_transaction_seconds{topic="t",partition="0"}'
LOST = "streamnb_lost_events_total"
READY = "streamnb_ready"
WORSE, BETTER = (f'streamnb_drift_detections_total{{direction="{d}"}}' for d in ("worse", "better"))
BEFORE, AFTER = "streamnb_drift_error_before_ratio", "streamnb_drift_error_after_ratio"
EVALUATED, CORRECT = "streamnb_evaluated_total", "streamnb_correct_total"


def second(name: str = "b", changes: Mapping[str, Level] | None = None) -> Series:
    """Another instance of the same app: it owns the next partition of the unlabelled topic."""
    return instance(name, partition={"b": "1", "c": "2"}[name], owns_labelled="no", changes=changes)


def stepped(*moments: float) -> Level:
    """A counter that goes up by one at each of these moments."""
    return lambda t: float(sum(t >= moment for moment in moments))


def between(begin: float, end: float, inside: Level, outside: Level = zero) -> Level:
    return lambda t: inside(t) if begin <= t < end else outside(t)


def drains(start: float, seconds: float) -> Level:
    return lambda t: max(0.0, start * (1 - t / seconds))


def absent(_: float) -> None:
    return None


def restoring_until(end: float, events: float) -> dict[str, Level]:
    """No duty and nothing committed until the log has been learned; what is read meanwhile does not count."""
    return {
        READY: from_(end, still(1)),
        RUNNING: from_(end, still(1)),
        RESTORING: from_(end, still(0), still(1)),
        REMAINING: drains(events, end),
        LABELLED_LAG: drains(events, end),
        LEARNED: rising(events / end),
        OWNED: from_(end, still(2)),
        LAG: from_(end, drains(50_000, HOUR), absent),
        PUBLISHED: from_(end, rising(100), absent),
        PUBLISHED_LABELLED: from_(end, rising(100), absent),
        LAST_COMMIT: lambda t: t if t >= end else 0.0,
        COMMITTED: from_(end, rising(5)),
        OK: from_(end, rising(80)),
        LABELLED_OK: from_(end, rising(20)),
    }


def broker_away(*outages: tuple[float, float]) -> dict[str, Level]:
    """Nothing is committed in these times, each try fails after 15 s, and records wait."""

    def out(t: float) -> float | None:
        return next((t - begin for begin, end in outages if begin <= t < end), None)

    def last_commit(t: float) -> float:
        return next((begin for begin, end in outages if begin <= t < end), t)

    tries = [begin + 15 * n for begin, end in outages for n in range(1, int((end - begin) / 15) + 1)]
    return {
        READY: lambda t: float(out(t) is None),
        LAST_COMMIT: last_commit,
        LAG: lambda t: 100.0 * (out(t) or 0),
        PUBLISHED: lambda t: 80.0 * last_commit(t),
        PUBLISHED_LABELLED: lambda t: 20.0 * last_commit(t),
        COMMITTED: lambda t: 5.0 * last_commit(t),
        OK: lambda t: 80.0 * last_commit(t),
        LABELLED_OK: lambda t: 20.0 * last_commit(t),
        LEARNED: lambda t: 20.0 * last_commit(t),
        ABORTED: stepped(*tries),
    }


def moves_to_b(at: float, back: float) -> Series:
    """Partition 0 of the unlabelled topic goes from a to b and back, two seconds in between."""
    a = {PUBLISHED: between(at, back, absent, rising(80)), LAG: between(at, back, absent, still(5))}
    b = second(changes={ASSIGNED: stepped(at, back), ABORTED: stepped(at)})
    extra = {'streamnb_published_offset{job="streamnb",instance="b",topic="t",partition="0"}': rising(80)}
    moved = {key: between(at + 2, back - 2, level, absent) for key, level in extra.items()}
    return {**instance(changes={**a, ASSIGNED: stepped(at, back)}), **b, **moved}


def scored(evaluated_per_second: Level, accuracy: Level) -> Series:
    """Two instances that score the same events; sums of both courses, hour by hour."""

    def total(share: Level) -> Level:
        sums = [0.0]
        for hour in range(24 * 10):
            t = hour * HOUR
            sums.append(sums[-1] + HOUR * (evaluated_per_second(t) or 0) * (share(t) or 0))
        return lambda t: sums[int(t // HOUR)] + (t % HOUR) / HOUR * (sums[int(t // HOUR) + 1] - sums[int(t // HOUR)])

    courses = {EVALUATED: total(still(1)), CORRECT: total(accuracy)}
    return {k: v for name in "ab" for k, v in instance(name, changes=courses).items() if k.split("{")[0] in SCORES}


SCORES = {"up", "streamnb_build_info", EVALUATED, CORRECT}

LETS_PASS: dict[str, tuple[Series, float, int]] = {
    "a busy hour": ({**instance(), **second()}, HOUR, 60),
    "a quiet night": (quiet(instance()), 8 * HOUR, 120),
    "a slow stream with an event each ten minutes": (
        {
            **quiet(instance()),
            **instance(
                changes={
                    LAG: lambda t: float(t % 600 == 0),
                    LABELLED_LAG: still(0),
                    PUBLISHED: lambda t: t // 600,
                    OK: lambda t: t // 600,
                    LABELLED_OK: still(0),
                    COMMITTED: lambda t: t // 600,
                    LAST_COMMIT: lambda t: t // 600 * 600 + 1,
                }
            ),
        },
        4 * HOUR,
        60,
    ),
    "a restart of the only instance": (restarted(instance(), [20 * MINUTE], 40), HOUR, 60),
    "the only instance's pod moves to another machine": (
        restarted(instance(), [20 * MINUTE], 120, moved=True),
        HOUR,
        60,
    ),
    "a deploy of three instances and a roll-back": (
        {
            **restarted(
                instance(changes={ASSIGNED: stepped(*range(600, 1500, 60)), ABORTED: stepped(610, 700, 900)}),
                [600, 1200],
            ),
            **restarted(second("b", {ASSIGNED: stepped(*range(600, 1500, 60))}), [700, 1300]),
            **restarted(second("c", {ASSIGNED: stepped(*range(600, 1500, 60))}), [800, 1400]),
        },
        HOUR,
        60,
    ),
    "somebody restarts it three times by hand": (restarted(instance(), [600, 900, 1200]), HOUR, 60),
    "a first start with three hours of log to learn": (instance(changes=restoring_until(3 * HOUR, 5e8)), 5 * HOUR, 60),
    "one of two restores without a snapshot": (
        {
            **instance(),
            **second(
                changes={READY: from_(HOUR, still(1)), RUNNING: from_(HOUR, still(1)), REMAINING: drains(1e8, HOUR)}
            ),
        },
        2 * HOUR,
        60,
    ),
    "a partition moves and comes back": (moves_to_b(20 * MINUTE, 50 * MINUTE), 2 * HOUR, 60),
    "two of three are taken away for good": (
        {
            **instance(),
            **gone(second("b"), 30 * MINUTE, discovered=False),
            'streamnb_published_offset{job="streamnb",instance="a",topic="t",partition="1"}': from_(
                1810, rising(80), absent
            ),
        },
        2 * HOUR,
        60,
    ),
    "the app is given another name": (
        {
            **gone(instance(), 30 * MINUTE, discovered=False),
            'up{job="streamnb",instance="a"}': still(1),
            'streamnb_build_info{job="streamnb",instance="a",app="fraud2",version="1"}': from_(1860, still(1), absent),
        },
        3 * HOUR,
        60,
    ),
    "a topic is taken out of the configuration": (
        {
            **instance(),
            'streamnb_published_offset{job="streamnb",instance="a",topic="old",partition="0"}': between(
                0, 1800, rising(1), absent
            ),
        },
        2 * HOUR,
        60,
    ),
    "it catches up after an outage of a night": (
        instance(changes={LAG: drains(8e6, 2 * HOUR), LAST_COMMIT: clock}),
        3 * HOUR,
        60,
    ),
    "a million events are loaded at once": (
        instance(changes={LAG: from_(HOUR, drains(1e6, 40 * MINUTE))}),
        3 * HOUR,
        60,
    ),
    "three brokers are restarted one by one": (
        instance(changes=broker_away((600, 770), (900, 1070), (1200, 1370))),
        HOUR,
        60,
    ),
    "a dead owner is taken over from": (instance(changes=broker_away((600, 640))), HOUR, 60),
    "a producer's transaction stays open for ten minutes": (
        instance(changes={UPSTREAM: between(600, 1200, lambda t: t - 600)}),
        HOUR,
        60,
    ),
    "one bad event at night": (
        {
            **quiet(instance()),
            **{k: v for k, v in instance(changes={DEAD: stepped(600)}).items() if DEAD[:-1].split("{")[1] in k},
        },
        8 * HOUR,
        120,
    ),
    "five hundred bad events within a minute": (
        instance(changes={DEAD: from_(HOUR, lambda t: min(500.0, t * 500 / 60))}),
        8 * HOUR,
        120,
    ),
    "snapshots are taken each ten minutes": (instance(changes={SNAPSHOT_TIME: lambda t: t // 600 * 600}), 3 * HOUR, 60),
    "a start after a week finds an old snapshot": (
        instance(changes={SNAPSHOT_TIME: lambda t: t if t > 60 else -7.0 * DAY}),
        HOUR,
        60,
    ),
    "a new model learns, and its error falls": (
        instance(changes={BETTER: stepped(600, 1200), BEFORE: still(0.5), AFTER: still(0.2)}),
        2 * HOUR,
        60,
    ),
    "the error rises by two points, for good": (
        instance(changes={WORSE: stepped(600), BEFORE: still(0.1), AFTER: still(0.12)}),
        2 * HOUR,
        60,
    ),
    "it restarts and still knows of a drift long past": (
        restarted(instance(changes={BEFORE: still(0.1), AFTER: still(0.3)}), [HOUR]),
        2 * HOUR,
        60,
    ),
    "a new model climbs": (scored(still(20), lambda t: min(0.95, 0.5 + t / DAY)), 3 * DAY, 1800),
    "few events are scored at night, and most are missed": (
        scored(lambda t: 5 if t % DAY < 18 * HOUR else 0.05, lambda t: 0.9 if t % DAY < 18 * HOUR else 0.6),
        8 * DAY,
        1800,
    ),
    "accuracy sways by four points over the day": (
        scored(still(5), lambda t: 0.9 if t % DAY < 12 * HOUR else 0.86),
        8 * DAY,
        1800,
    ),
}

WAKES_FOR: dict[str, tuple[set[str], Series, float, int]] = {
    "the only instance has died": ({"StreamnbDown", "StreamnbInstanceDown"}, gone(instance(), 600), 2 * HOUR, 60),
    "all pods have gone": (
        {"StreamnbDown"},
        {**gone(instance(), 600, discovered=False), **gone(second(), 700, discovered=False)},
        2 * HOUR,
        60,
    ),
    "Prometheus finds no target": ({"StreamnbDown"}, {"other": still(1)}, HOUR, 60),
    "one of two has died": (
        {"StreamnbInstanceDown"},
        {
            **instance(),
            **gone(second(), 600),
            'streamnb_published_offset{job="streamnb",instance="a",topic="t",partition="1"}': from_(640, clock, absent),
        },
        HOUR,
        60,
    ),
    "no instance gets a duty": (
        {"StreamnbNotReady", "StreamnbInstanceNotReady"},
        {k: v for k, v in quiet(instance(changes={OWNED: still(0), READY: still(0)})).items() if "published" not in k},
        HOUR,
        60,
    ),
    "restoring stands still": (
        {"StreamnbNotReady", "StreamnbInstanceNotReady"},
        instance(
            changes={
                **restoring_until(9 * HOUR, 1e8),
                REMAINING: still(1e8),
                LEARNED: still(0),
                LABELLED_LAG: still(1e8),
            }
        ),
        HOUR,
        60,
    ),
    "one of two hangs in draining": (
        {"StreamnbInstanceNotReady"},
        {**instance(), **quiet(second(changes={READY: from_(600, still(0), still(1))}))},
        HOUR,
        60,
    ),
    "the watchdog ends it every 90 seconds": (
        {"StreamnbRestartsOften"},
        restarted(instance(), range(600, 3000, 90), 15),
        HOUR,
        60,
    ),
    "it restarts without traffic": (
        {"StreamnbRestartsOften"},
        restarted(quiet(instance()), range(600, 3000, 240), 20),
        HOUR,
        60,
    ),
    "more comes than it can do": (
        {"StreamnbLagGrowing"},
        instance(changes={LAG: rising(50)}),
        1.5 * HOUR,
        60,
    ),
    "more comes than it can do, for a day": (
        {"StreamnbLagGrowing", "StreamnbFarBehind"},
        instance(changes={LAG: rising(50)}),
        6 * HOUR,
        60,
    ),
    "it stays ten minutes behind": (
        {"StreamnbLagGrowing"},
        instance(changes={LAG: lambda t: 60_000 + (t * 7) % 200}),
        2 * HOUR,
        60,
    ),
    "one partition is not read on": (
        {"StreamnbPartitionStuck"},
        instance(changes={LAG: from_(600, rising(1)), PUBLISHED: from_(600, still(48_000), rising(80))}),
        HOUR,
        60,
    ),
    "a standby does not learn on": (
        {"StreamnbPartitionStuck"},
        {
            **instance(),
            **{
                k: v
                for k, v in second(
                    changes={OWNED: still(0), LABELLED_LAG: from_(600, rising(1)), LEARNED: still(9)}
                ).items()
                if "published" not in k and "commit" not in k
            },
        },
        HOUR,
        60,
    ),
    "no broker has come back for an hour": (
        {"StreamnbNotReady", "StreamnbInstanceNotReady", "StreamnbNotCommitting", "StreamnbTransactionsFail"},
        instance(changes=broker_away((600, 9 * HOUR))),
        HOUR,
        60,
    ),
    "commits stop, nothing is tried": (
        {"StreamnbNotCommitting"},
        instance(
            changes={
                LAST_COMMIT: still(600),
                LAG: between(0, 600, still(0), lambda t: t % 60),
                PUBLISHED: still(48_000),
                COMMITTED: still(9),
            }
        ),
        40 * MINUTE,
        60,
    ),
    "a producer's transaction hangs": (
        {"StreamnbUpstreamTransactionOpen"},
        {**instance(changes={UPSTREAM: clock}), **second()},
        HOUR,
        60,
    ),
    "a partition has lost its owner": (
        {"StreamnbPartitionUnowned"},
        {
            **instance(),
            **second(changes={'streamnb_published_offset{topic="t",partition="1"}': between(0, 600, clock, absent)}),
        },
        50 * MINUTE,
        60,
    ),
    "nobody has ever owned the labelled partition": (
        {"StreamnbPartitionUnowned"},
        {**instance(owns_labelled="no")},
        HOUR,
        60,
    ),
    "a producer sends rubbish": (
        {"StreamnbDeadLettersBurst", "StreamnbDeadLettersLeak"},
        {**instance(changes={DEAD: from_(600, rising(10))}), **second()},
        HOUR,
        60,
    ),
    "a burst of bad events is over in a minute": (
        {"StreamnbDeadLettersLeak"},
        instance(changes={DEAD: from_(600, lambda t: min(5000.0, t * 5000 / 60))}),
        2 * HOUR,
        60,
    ),
    "one event in five hundred is bad": (
        {"StreamnbDeadLettersLeak"},
        instance(changes={DEAD: rising(0.2)}),
        3 * HOUR,
        60,
    ),
    "every fifth transaction is aborted": (
        {"StreamnbTransactionsFail"},
        instance(changes={ABORTED: rising(1.25)}),
        HOUR,
        60,
    ),
    "the group never settles": (
        {"StreamnbRebalanceLoop"},
        instance(changes={ASSIGNED: rising(1 / 40)}),
        2 * HOUR,
        60,
    ),
    "retention overtakes it": ({"StreamnbEventsLost"}, instance(changes={LOST: stepped(600)}), HOUR, 60),
    "a new process finds records gone": (
        {"StreamnbEventsLost"},
        {k: between(120, HOUR, v, absent) for k, v in instance(changes={LOST: still(40)}).items()},
        59 * MINUTE,
        60,
    ),
    "the disk is full": (
        {"StreamnbSnapshotTooOld"},
        instance(changes={SNAPSHOT_TIME: lambda t: min(t, 600.0)}),
        HOUR,
        60,
    ),
    "a start finds a damaged snapshot": (
        {"StreamnbSnapshotDamaged"},
        restarted(instance(changes={DAMAGED: from_(1200, still(1))}), [1200]),
        HOUR,
        60,
    ),
    "a producer has swapped two fields": (
        {"StreamnbDrift"},
        {
            **instance(changes={WORSE: stepped(1800), BEFORE: still(0.1), AFTER: from_(1800, still(0.35), still(0.1))}),
            **second(changes={WORSE: stepped(1810), BEFORE: still(0.1), AFTER: from_(1810, still(0.33), still(0.1))}),
        },
        HOUR,
        60,
    ),
    "the world has changed": (
        {"StreamnbAccuracyFalls"},
        scored(still(5), lambda t: 0.9 if t < 7 * DAY else 0.8),
        8 * DAY,
        1800,
    ),
}


def labels_shown(alert: str) -> set[str]:
    return set(re.findall(r"\$labels\.(\w+)", str(ALERTS[alert]["annotations"])))


@pytest.mark.parametrize("story", LETS_PASS)
def test_nobody_is_disturbed_when(tmp_path: Path, story: str) -> None:
    series, until, step = LETS_PASS[story]
    assert fired(tmp_path, series, until, {}, step) == ""


@pytest.mark.parametrize("story", WAKES_FOR)
def test_an_alert_fires_when(tmp_path: Path, story: str) -> None:
    alerts, series, until, step = WAKES_FOR[story]
    labels = {alert: labels_shown(alert) if series.keys() != {"other"} else set() for alert in alerts}
    assert fired(tmp_path, series, until, labels, step) == ""


def test_every_alert_has_a_story() -> None:
    assert set().union(*(alerts for alerts, *_ in WAKES_FOR.values())) == set(ALERTS)
