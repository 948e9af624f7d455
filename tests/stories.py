"""What Prometheus would have scraped from streamnb in a story, and which alerts had then fired (promtool tells)."""

import math
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import yaml

RULES = Path(__file__).parents[1] / "deploy" / "prometheus" / "streamnb.rules.yaml"
MINUTE, HOUR, DAY = 60, 3600, 86400

Level = Callable[[float], float | None]
"""A series' value at a second of the story; None while nothing is scraped."""
Series = dict[str, Level]


def still(value: float) -> Level:
    return lambda _: value


def rising(per_second: float, start: float = 0.0) -> Level:
    return lambda t: start + per_second * t


def clock(t: float) -> float:
    return t


def zero(_: float) -> float:
    return 0.0


def from_(begin: float, then: Level, before: Level = zero) -> Level:
    """One course until a moment, another one from there, which starts at its own 0."""
    return lambda t: then(t - begin) if t >= begin else before(t)


def instance(name: str = "a", app: str = "fraud", changes: Mapping[str, Level] | None = None, **role: str) -> Series:
    """One instance that does well: two partitions owned, 100 events a second, a fifth of them labelled.

    `changes` names a series as here, without job and instance.
    """
    topic, partition = role.get("topic", "t"), role.get("partition", "0")
    own, labelled = f'topic="{topic}",partition="{partition}"', 'topic="l",partition="0"'
    owns_labelled = role.get("owns_labelled", "yes") == "yes"
    series: Series = {
        "up": still(1),
        f'streamnb_build_info{{app="{app}",version="1"}}': still(1),
        'streamnb_state{state="running"}': still(1),
        'streamnb_state{state="restoring"}': still(0),
        "streamnb_ready": still(1),
        "streamnb_start_timestamp_seconds": still(0),
        "streamnb_partitions_owned": still(1 + owns_labelled),
        "streamnb_restore_remaining_events": still(0),
        f"streamnb_lag_events{{{own}}}": lambda t: (t * 7) % 200,
        f"streamnb_lag_events{{{labelled}}}": lambda t: (t * 3) % 40,
        f"streamnb_published_offset{{{own}}}": rising(80),
        f"streamnb_learned_offset{{{labelled}}}": rising(20),
        f"streamnb_open_upstream_transaction_seconds{{{own}}}": lambda t: t % 20,
        "streamnb_last_commit_timestamp_seconds": clock,
        "streamnb_snapshot_timestamp_seconds": clock,
        'streamnb_snapshots_total{outcome="ok"}': rising(1 / 30, 1),
        'streamnb_snapshots_total{outcome="damaged"}': still(0),
        'streamnb_events_total{role="unlabelled",outcome="ok"}': rising(80),
        'streamnb_events_total{role="unlabelled",outcome="dead"}': still(0),
        'streamnb_events_total{role="labelled",outcome="ok"}': rising(20),
        'streamnb_transactions_total{outcome="committed"}': rising(5),
        'streamnb_transactions_total{outcome="aborted"}': still(0),
        'streamnb_transactions_total{outcome="unknown"}': still(0),
        'streamnb_rebalances_total{kind="assigned"}': still(1),
        "streamnb_lost_events_total": still(0),
        "streamnb_evaluated_total": rising(20),
        "streamnb_correct_total": rising(18),
        'streamnb_drift_detections_total{direction="worse"}': still(0),
        'streamnb_drift_detections_total{direction="better"}': still(0),
        "streamnb_drift_error_before_ratio": still(math.nan),
        "streamnb_drift_error_after_ratio": still(math.nan),
    }
    if owns_labelled:
        series[f"streamnb_published_offset{{{labelled}}}"] = rising(20)
    assert changes is None or set(changes) <= set(series), set(changes) - set(series)
    return {_of(name, key): level for key, level in {**series, **(changes or {})}.items()}


def quiet(series: Series) -> Series:
    """The same instance when no event comes: nothing waits, nothing grows, nothing is committed."""
    lively = ("_events_total", "_offset", "transactions_total", "evaluated_total", "correct_total", "last_commit")
    return {
        key: still(level(60) or 0) if any(part in key for part in lively) else still(0) if "lag_" in key else level
        for key, level in series.items()
    }


def restarted(series: Series, at: Iterable[float], seconds: float = 30, moved: bool = False) -> Series:
    """The process ends at these moments and answers again after some seconds, its counters from 0."""
    moments = sorted(at)

    def again(key: str, level: Level) -> Level:
        def value(t: float) -> float | None:
            begun = max((m for m in moments if m <= t), default=None)
            if begun is None:
                return level(t)
            if t < begun + seconds:
                return 0.0 if key.startswith("up{") and not moved else None
            if key.startswith("streamnb_start_timestamp_seconds"):
                return begun + seconds
            return level(t - begun) if "_total" in key else level(t)

        return value

    return {key: again(key, level) for key, level in series.items()}


def gone(series: Series, after: float, discovered: bool = True) -> Series:
    """The process is there no more; its target still is, if `discovered`."""
    return restarted(series, [after], 365 * DAY, moved=not discovered)


def fired(tmp_path: Path, series: Series, until: float, expected: Mapping[str, set[str]], step: int = 60) -> str:
    """Run the story; return what promtool says if other alerts than expected have fired, else an empty text.

    Expected are names of alerts and the labels that must not be empty.
    """
    checks = [{"expr": 'group by (alertname) (last_over_time(ALERTS{alertstate="firing"}[30d]))', "of": expected}]
    for alert, labels in expected.items():
        filled = "".join(f',{label}!=""' for label in sorted(labels))
        checks.append({"expr": f'group(last_over_time(ALERTS{{alertname="{alert}"{filled}}}[30d]))', "of": None})
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{step}s",
        "tests": [
            {
                "interval": f"{step}s",
                "input_series": [{"series": k, "values": _values(v, until, step)} for k, v in series.items()],
                "promql_expr_test": [
                    {
                        "expr": check["expr"],
                        "eval_time": f"{until:.0f}s",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}' if name else "{}", "value": 1}
                            for name in (check["of"] if check["of"] is not None else [""])
                        ],
                    }
                    for check in checks
                ],
            }
        ],
    }
    path = tmp_path / "story.yaml"
    path.write_text(yaml.safe_dump(test, width=10**9))
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def _of(instance: str, key: str) -> str:
    name, _, labels = key.partition("{")
    return f'{name}{{job="streamnb",instance="{instance}"{"," if labels else ""}{labels or "}"}'


def _values(level: Level, until: float, step: int) -> str:
    """Prometheus marks a series stale at the first scrape without it."""
    words, there = [], False
    for t in range(0, int(until) + 1, step):
        value = level(t)
        words.append(f"{value:.10g}" if value is not None else "stale" if there else "_")
        there = value is not None
    return " ".join(words)
