"""What deploy/ ships works beside a running daemon: Prometheus scrapes it, queries answer, the demo's messages flow."""

import json
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaConsumer

from tests.broker import Cluster, free_port, wait_until
from tests.daemon import Daemon

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "streamnb.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "streamnb.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
VARIABLES = {"$__rate_interval": "5s", "$app": "live", "$instance": ".+"}
EMPTY_WHEN_ALL_IS_WELL = {
    "Partitions that lag most",
    "Open upstream transactions",
    "Published",
    "Time to catch up",
    "Rebalances",
}


class Prometheus:
    """A server with the shipped configuration, but this daemon as its target and a scrape each second."""

    def __init__(self, folder: Path, target: str) -> None:
        assert shutil.which("prometheus"), "prometheus is missing; tests/run installs it"
        folder.mkdir()
        settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        settings["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
        settings["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        rules = yaml.safe_load((DEPLOY / "prometheus" / "streamnb.rules.yaml").read_text())
        for group in rules["groups"]:
            group["interval"] = "500ms"
        (folder / "streamnb.rules.yaml").write_text(yaml.safe_dump(rules))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"),
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                cwd=folder,
                stdout=log,
                stderr=log,
            )

    def get(self, path: str, **parameters: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, text: str) -> list[Any]:
        try:
            return list(self.get("/api/v1/query", query=text)["result"])
        except OSError:
            return []


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A daemon with some events of every sort behind it, watched long enough for every rate to have two samples."""
    folder = tmp_path_factory.mktemp("live")
    events = [
        json.dumps({"features": {"amount": i % 7, "country": "de"}, **({"label": "ab"[i % 2]} if i % 3 else {})})
        for i in range(300)
    ]
    (folder / "in.jsonl").write_text("\n".join([*events, "not JSON"]) + "\n")
    config = {
        "app": "live",
        "transport": "files",
        "files": {"input": str(folder / "in.jsonl"), "follow": True},
        "output": {"predictions": str(folder / "out.jsonl"), "dead_letters": str(folder / "dead.jsonl")},
    }
    daemon = Daemon(folder / "daemon", config).start()
    prometheus = Prometheus(folder / "prometheus", f"127.0.0.1:{daemon.port}")
    try:
        daemon.ready()
        seen = "streamnb_evaluated_total > 0 and count_over_time(streamnb_evaluated_total[5s]) > 3"
        wait_until(lambda: prometheus.query("app:streamnb_published_offset:max"), 60, "the rules to be evaluated")
        with (folder / "in.jsonl").open("a") as file:
            file.write("\n".join([*events, "not JSON either"]) + "\n")
        wait_until(lambda: prometheus.query(seen), 30, "events to be seen")
        yield prometheus
    finally:
        prometheus.process.kill()
        prometheus.process.wait()
        daemon.close()


def test_prometheus_evaluates_every_rule_without_error_and_none_fires(watched: Prometheus) -> None:
    def evaluated() -> list[dict[str, Any]]:
        rules = [rule for group in watched.get("/api/v1/rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = wait_until(evaluated, 30, "all rules to be evaluated")
    assert len(rules) == len(RULES)
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules if rule.get("state") == "firing"] == []


@pytest.mark.parametrize("panel", [p for p in DASHBOARD["panels"] if p.get("targets")], ids=lambda p: p["title"])
def test_a_panel_shows_something_of_a_running_daemon(watched: Prometheus, panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        answer = watched.get("/api/v1/query", query=query)["result"]
        assert answer or panel["title"] in EMPTY_WHEN_ALL_IS_WELL or query.endswith("> 0")


def test_the_variables_of_the_dashboard_find_the_app_and_its_instance(watched: Prometheus) -> None:
    assert watched.get("/api/v1/label/app/values") == ["live"]
    (info,) = watched.query('streamnb_build_info{job="streamnb",app="live"}')
    assert {"instance", "version"} <= set(info["metric"])


def test_the_messages_of_the_compose_file_are_answered(broker: Cluster, tmp_path: Path) -> None:
    run = uuid.uuid4().hex[:8]
    names = {topic: f"{run}.{topic}" for topic in ("labelled", "messages", "predictions", "dead")}
    config = yaml.safe_load((DEPLOY / "compose" / "streamnb.yaml").read_text())
    config["app"] = f"messages-{run}"
    config["kafka"]["bootstrap_servers"] = broker.bootstrap
    config["input"] = {"labelled": [names["labelled"]], "unlabelled": [names["messages"]]}
    config["output"] |= {"predictions": names["predictions"], "dead_letters": names["dead"]}
    config["snapshots"]["path"] = str(tmp_path / "snapshots")
    daemon = Daemon(tmp_path / "daemon", config)
    create = [sys.executable, "-m", "streamnb", "topics", "create", "config.yaml"]
    subprocess.run(create, cwd=tmp_path / "daemon", check=True, timeout=60)
    options = ["--bootstrap", broker.bootstrap, "--labelled", names["labelled"], "--unlabelled", names["messages"]]
    command = [sys.executable, str(DEPLOY / "compose" / "producer.py"), *options, "--rate", "1000", "--count", "200"]
    subprocess.run(command, check=True, timeout=60)
    try:
        daemon.start().ready()
        wait_until(lambda: daemon.metric("predictions_total") == 50, 30, f"50 answers; {daemon.tail()}")
        assert daemon.metric("events_total", role="labelled", outcome="ok") + daemon.metric("model_events") >= 150
        assert daemon.stop() == 0
    finally:
        daemon.close()
    with KafkaConsumer(
        names["predictions"],
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=3000,
    ) as consumer:
        answers = [json.loads(record.value) for record in consumer]
    assert sorted(answer["id"] for answer in answers) == list(range(3, 200, 4))
    assert {answer["label"] for answer in answers} <= {"ham", "spam"}
