"""Compiles every kernel that the daemon uses, into NUMBA_CACHE_DIR: a few events of each kind of model.

python warm_up.py [KIND ...]
"""

import json
import os
import subprocess
import sys

EVENTS = {
    "gaussian": {"amount": 1.5, "age": 30},
    "multinomial": {"a": 2, "b": 0},
    "complement": {"a": 2, "b": 0},
    "bernoulli": {"a": True, "b": False},
    "categorical": {"country": "de", "known": True},
    "mixed": {"amount": 1.5, "country": "de", "text": "free prize now", "words": ["a", "b"], "flag": True, "clicks": 3},
}
MIXED = {"amount": "gaussian", "country": "categorical", "text": "text", "flag": "bernoulli", "clicks": "counts"}


def warm_up(kind: str, features: dict[str, object]) -> None:
    """Learn two classes from labelled events, of whole weights first, and answer one without a label, explained."""
    events: list[dict[str, object]] = [{"features": features, "label": label} for label in ("yes", "no", "yes", None)]
    events.insert(2, {**events[0], "weight": 0.5})  # counts are integers until then
    environ = {**os.environ, "STREAMNB_MODEL__KIND": kind, "STREAMNB_OUTPUT__EXPLAIN": "2", "STREAMNB_HTTP__PORT": "0"}
    if kind == "mixed":
        environ["STREAMNB_MODEL__FEATURES"] = json.dumps(MIXED)
    lines = "".join(f"{json.dumps(event)}\n" for event in events).encode()
    done = subprocess.run(
        [sys.executable, "-m", "streamnb", "run", "--log-level", "warning", "--input", "-", "--predictions", "-"],
        input=lines,
        stdout=subprocess.PIPE,
        env=environ,
        check=True,
    )
    answers = done.stdout.splitlines()
    if len(answers) != 1 or json.loads(answers[0])["label"] not in ("yes", "no"):
        sys.exit(f"{kind}: expected one answer, got {done.stdout!r}")


for kind in sys.argv[1:] or EVENTS:
    warm_up(kind, EVENTS[kind])
    print(f"compiled: {kind}", flush=True)
