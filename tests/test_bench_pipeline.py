"""`streamnb bench pipeline` prints every figure of its table and leaves nothing behind it."""

import json
import math
import subprocess
import sys
import time
from typing import Any

import pytest

from streamnb.bench.pipeline import goals
from streamnb.bench.pipeline.loop import users_answer
from streamnb.bench.pipeline.sides import cpu_seconds
from streamnb.bench.pipeline.streams import STREAMS, text
from streamnb.cli.profiling import Sampler
from tests.broker import Cluster

NUMBERS, WORDS = f"confluent: {goals.EIGHT}", f"confluent: {text(20_000, 1).name}"
FIGURES = {
    (goals.EIGHT, goals.ALONE),
    (f"files: {goals.EIGHT}", goals.FILES),
    *((NUMBERS, column) for column in (goals.START, goals.IDLE, goals.NULL, goals.USER, goals.REPLAY)),
    *((NUMBERS, f"{share} {goals.LATENCY}, 500 events/s") for share in ("p50", "p99")),
    *((WORDS, column) for column in (goals.STEP, goals.STEPS)),
}


def test_every_figure_is_there_once_and_every_topic_gone(broker: Cluster) -> None:
    command = [sys.executable, "-m", "streamnb", "bench", "pipeline", "--quick", "--json"]
    run = [*command, "--brokers", broker.bootstrap, "--client", "confluent"]
    found = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert {(one["row"], one["column"]) for one in found["results"]} == FIGURES
    assert len(found["results"]) == len(FIGURES)
    for one in found["results"]:
        assert 0 <= one["low"] <= one["value"] <= one["high"] < math.inf
        reached = one["goal"] and (one["value"] >= one["goal"] if one["at_least"] else one["value"] <= one["goal"])
        assert one["ok"] is (None if one["goal"] is None else reached)
    assert not [name for name in broker.admin.list_topics() if name.startswith("streamnb-bench")]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_half_of_the_events_are_labelled_and_the_users_loop_answers_the_others(stream: Any) -> None:
    pairs = stream.events(100, 1)
    answer = users_answer(stream.name, json)
    answers = [answer(value) for _, value in pairs]
    assert [said is None for said in answers] == [b'"label"' in value for _, value in pairs] == [True, False] * 50
    assert set(json.loads(answers[-1] or b"")) == {"id", "label", "probabilities"}


def test_a_profile_names_the_functions_that_took_the_time() -> None:
    def work(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    with Sampler() as sampler:
        work(0.2)
    itself, within = sampler.report().split("\n\n")
    assert "test_bench_pipeline.py" in itself.splitlines()[1]
    assert any(line.strip().startswith("100.0 %") and line.endswith("<locals>.work") for line in within.splitlines())


def test_the_cpu_time_of_another_process_counts_what_it_works_and_not_what_it_sleeps() -> None:
    code = "import time; t = time.process_time()\nwhile time.process_time() < t + 0.3: pass\nprint(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before, begun = cpu_seconds(process.pid), time.process_time()
        assert 0.3 <= before < 2.0
        while time.process_time() < begun + 0.1:
            pass
        assert cpu_seconds(process.pid) - before < 0.05
        process.communicate(b"\n")
