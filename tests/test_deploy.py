"""What deploy/ ships fits the daemon: names, paths and ports exist, and the tools that read the files accept them."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamnb.config import load
from streamnb.metric_families import FAMILIES, PREFIX
from tests.broker import free_port, wait_until

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "streamnb.rules.yaml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "streamnb.json").read_text())
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
README = (DEPLOY / "README.md").read_text()
MANIFESTS = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if "apiVersion:" in path.read_text())
OURS = {path.stem: yaml.safe_load(path.read_text()) for path in MANIFESTS}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = DEPLOY / "systemd" / "streamnb.service"
SERIES = rf"\b(?:{PREFIX}|process_)\w+"
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
BUILT_IN = {"kustomization", "servicemonitor"}
"""Kinds whose schema does not come with Kubernetes."""

RULE_LIST = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULE_LIST if "alert" in rule]
ALERT_IDS = [rule["alert"] for rule in ALERTS]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    *(target["expr"] for panel in PANELS for target in panel.get("targets", [])),
    *(note["expr"] for note in DASHBOARD["annotations"]["list"]),
]
SAME_ON_ALL = {
    *("model_", "evaluated_", "correct_", "log_loss_", "unknown_labels_", "brier_", "accuracy_ratio", "drift_"),
    *("majority_", "prior_", "calibration_", "class_evaluated_", "class_correct_", "class_predicted_"),
    "snapshot_bytes",
}
"""Beginnings of the series that every instance has alike: a sum over instances counts the same event twice."""


def run(*command: str | Path, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    assert shutil.which(str(command[0])), f"{command[0]} is missing; tests/run installs it"
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, **kwargs)


def accepted(*command: str | Path, **kwargs: Any) -> str:
    done = run(*command, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def without_variables(query: str) -> str:
    known = {"$app": "fraud", "$instance": "a|b", "$__rate_interval": "1m"}
    return re.sub(r"\$\w+", lambda found: known[found[0]], query)


def metrics_in(query: str) -> set[str]:
    """The metrics' names without prefix; what the rules record themselves has a colon and is none of them."""
    bare = re.sub(r"\w*:[\w:]+", "", query)
    return {name.removeprefix(PREFIX) for name in re.findall(SERIES, bare)}


def families(names: set[str]) -> set[str]:
    return {
        base
        if (base := re.sub("_(bucket|sum|count)$", "", n)) in FAMILIES and FAMILIES[base].kind == "histogram"
        else n
        for n in names
    }


# Prometheus


def test_prometheus_accepts_the_configuration_and_the_rules() -> None:
    accepted("promtool", "check", "rules", "--lint-fatal", RULES)
    accepted("promtool", "check", "config", "--lint-fatal", DEPLOY / "prometheus" / "prometheus.yml")


@pytest.mark.parametrize("rule", RULE_LIST, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_names_only_metrics_and_records_that_exist(rule: dict[str, Any]) -> None:
    assert families(metrics_in(rule["expr"])) <= set(FAMILIES)
    assert set(re.findall(r"\w*:[\w:]+", rule["expr"])) <= {r["record"] for r in RULE_LIST if "record" in r}


@pytest.mark.parametrize("rule", ALERTS, ids=ALERT_IDS)
def test_an_alert_says_how_bad_it_is_and_where_its_runbook_is(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
    path, anchor = rule["annotations"]["runbook_url"].split("#")
    assert (ROOT / path).samefile(DEPLOY / "README.md")
    sections = re.split(r"^### ", README, flags=re.MULTILINE)
    (section,) = [s for s in sections if s.split("\n")[0].lower() == anchor]
    assert re.findall(r"^\*\*(.+?)\.\*\*", section, flags=re.MULTILINE) == ["Means", "Look here", "Do this"]


def test_the_runbook_has_no_section_that_no_alert_leads_to() -> None:
    led_to = {rule["annotations"]["runbook_url"].split("#")[1] for rule in ALERTS}
    assert {title.lower() for title in re.findall(r"^### (.+)$", README, flags=re.MULTILINE)} == led_to


def test_every_link_of_the_readme_leads_somewhere() -> None:
    titles = re.findall(r"^#+ (.+)$", README, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors
    assert [path for path in re.findall(r"\bdeploy/[\w./-]+\w", README) if not (ROOT / path).exists()] == []


def test_the_scraped_targets_are_the_instances_of_the_compose_file() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    instances = [name for name in COMPOSE["services"] if name.startswith("streamnb-")]
    assert job["static_configs"][0]["targets"] == [f"{name}:9464" for name in instances]
    assert job["job_name"] == "streamnb"


# Grafana


def test_every_query_of_the_dashboard_is_understood_by_prometheus(tmp_path: Path) -> None:
    rules = [{"record": f"q{i}", "expr": without_variables(query)} for i, query in enumerate(QUERIES)]
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    accepted("promtool", "check", "rules", tmp_path / "queries.yaml")


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_only_metrics_that_exist(query: str) -> None:
    assert metrics_in(query)
    assert families(metrics_in(query)) <= set(FAMILIES) | OF_THE_PROCESS


@pytest.mark.parametrize("query", [*QUERIES, *(rule["expr"] for rule in RULE_LIST)])
def test_model_and_score_series_are_never_summed_over_instances(query: str) -> None:
    if any(name.startswith(tuple(SAME_ON_ALL)) for name in metrics_in(query)):
        within = re.sub(r"\bsum by \((job, )?instance\)", "", query)
        assert re.findall(r"\b(sum|count|avg)\b", within) == []


def test_the_dashboard_or_the_rules_show_every_metric() -> None:
    shown = set().union(*(families(metrics_in(q)) for q in [*QUERIES, *(r["expr"] for r in RULE_LIST)]))
    assert set(FAMILIES) - shown == set()


def test_the_dashboard_asks_what_an_operator_asks_in_that_order() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Is it up and ready?",
        "Does it keep up?",
        "Does it answer right?",
        "Does it lose anything?",
        "Is it healthy inside?",
    ]


def test_every_panel_takes_the_data_source_and_the_instances_that_were_chosen() -> None:
    assert [v["name"] for v in DASHBOARD["templating"]["list"]] == ["datasource", "app", "instance"]
    for panel in PANELS:
        for target in panel.get("targets", []):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            chosen = re.findall(SERIES + r"{([^}]*)", target["expr"])
            assert chosen
            assert all('instance=~"$instance"' in labels for labels in chosen)
            assert len(re.findall(SERIES, target["expr"])) == len(chosen)


def test_every_panel_has_a_title_a_description_and_a_place_of_its_own() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_a_panel_that_names_a_runbook_names_an_alert() -> None:
    named = {name for panel in PANELS for name in re.findall(r"Streamnb\w+", panel["description"])}
    assert named - {"StreamnbDeadLetters"} <= set(ALERT_IDS)


def test_grafana_finds_the_dashboard_where_compose_puts_it() -> None:
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/streamnb.yaml").read_text())["providers"]
    mounts = dict(volume.split(":")[:2] for volume in COMPOSE["services"]["grafana"]["volumes"])
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in COMPOSE["services"]


# The image


def test_hadolint_has_nothing_to_say_about_the_dockerfile() -> None:
    accepted("hadolint", "--strict-labels", "--failure-threshold", "style", DEPLOY / "Dockerfile")


def instruction(name: str) -> str:
    """The last one of this name, its continuation lines joined."""
    joined = re.sub(r"\\\n\s*", "", DOCKERFILE)
    return re.findall(rf"^{name} (.+)$", joined, flags=re.MULTILINE)[-1]


def test_the_container_runs_without_privileges_and_gets_signals_itself() -> None:
    user, _, group = instruction("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert json.loads(instruction("ENTRYPOINT")) == ["streamnb"]
    assert json.loads(instruction("CMD"))[0] == "run"
    assert instruction("STOPSIGNAL") == "SIGTERM"


def test_all_that_the_dockerfile_copies_is_in_the_build_context() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    allowed = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    sources = {source for line in copied for source in line.split()}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


def test_the_variables_that_images_and_manifests_set_are_keys_of_the_configuration() -> None:
    container = OURS["statefulset"]["spec"]["template"]["spec"]["containers"][0]
    names = {*re.findall(r"\b(STREAMNB_\w+__\w+)=", DOCKERFILE), *(item["name"] for item in container["env"])}
    assert names == {"STREAMNB_HTTP__HOST", "STREAMNB_HTTP__PORT", "STREAMNB_KAFKA__INSTANCE"}
    values = {"STREAMNB_HTTP__HOST": "0.0.0.0", "STREAMNB_HTTP__PORT": "9464", "STREAMNB_KAFKA__INSTANCE": "pod-0"}
    config = load(DEPLOY / "kubernetes" / "streamnb.yaml", values)
    assert (config.kafka.instance, config.http.host, config.http.port) == ("pod-0", "0.0.0.0", 9464)


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[bytes], int]]]:
    """Starts the image's command as process 1 of a namespace of its own, on an input file that it follows."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[subprocess.Popen[bytes], int]:
        (tmp_path / "in.jsonl").write_text('{"features": {"a": 1}, "label": "x"}\n{"features": {"a": 2}}\n')
        port = free_port()
        config = {
            "app": "one",
            "transport": "files",
            "files": {"input": "in.jsonl", "follow": True},
            "output": {"predictions": "out.jsonl"},
        }
        (tmp_path / "streamnb.yaml").write_text(yaml.safe_dump(config))
        entry, *arguments = [
            *json.loads(instruction("ENTRYPOINT")),
            *json.loads(instruction("CMD"))[:-1],
            "streamnb.yaml",
        ]
        namespace = ["--pid", "--fork", "--kill-child", "--mount-proc"]
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        command = ["unshare", *as_root, *namespace, str(Path(sys.executable).with_name(entry)), *arguments]
        environ = {**os.environ, "STREAMNB_HTTP__HOST": "0.0.0.0", "STREAMNB_HTTP__PORT": str(port)}
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=log, stderr=log)
        started.append(process)
        wait_until(lambda: answers(port, "/readyz"), 60, (tmp_path / "log").read_text())
        return process, port

    yield start
    for process in started:
        process.kill()
        process.wait()


def answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def inner(process: subprocess.Popen[bytes]) -> int:
    """The process that `unshare` has forked: process 1 inside."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


def test_process_1_of_a_container_ends_with_0_at_sigterm(following: Any) -> None:
    process, _ = following()
    os.kill(inner(process), signal.SIGTERM)
    assert process.wait(10) == 0


def test_the_health_check_of_the_image_tells_a_living_daemon_from_none(following: Any) -> None:
    process, port = following()
    check = json.loads(instruction("HEALTHCHECK").split("CMD", 1)[1])
    environ = {**os.environ, "STREAMNB_HTTP__PORT": str(port)}
    check[0] = sys.executable
    assert run(*check, env=environ).returncode == 0
    process.kill()
    process.wait()
    wait_until(lambda: not answers(port, "/healthz"), 10)
    assert run(*check, env=environ).returncode == 1


# Compose


def test_the_compose_file_follows_the_compose_specification() -> None:
    accepted("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_all_that_compose_mounts_or_builds_is_there() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        if "build" in service:
            context = (DEPLOY / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def test_compose_waits_longer_for_an_instance_than_one_may_take_to_stop() -> None:
    for name in ("streamnb-1", "streamnb-2"):
        assert COMPOSE["services"][name]["stop_grace_period"] == "60s"
        assert COMPOSE["services"][name]["hostname"] == name


@pytest.mark.parametrize("path", ["compose/streamnb.yaml", "kubernetes/streamnb.yaml"])
def test_a_shipped_configuration_is_accepted(path: str) -> None:
    config = load(DEPLOY / path, {})
    assert config.kafka.bootstrap_servers == "kafka:9092"
    assert str(config.snapshots.path).startswith("/var/lib/streamnb/")


# Kubernetes


@pytest.mark.parametrize("path", [p for p in MANIFESTS if p.stem not in BUILT_IN], ids=lambda path: path.stem)
def test_a_manifest_follows_the_schema_of_its_kind(path: Path) -> None:
    accepted("kubernetes-validate", "--strict", path)


def test_kustomize_is_given_every_manifest_and_file() -> None:
    kustomization = OURS["kustomization"]
    text = (DEPLOY / "kubernetes" / "kustomization.yaml").read_text()
    files = [name for made in kustomization["configMapGenerator"] for name in made["files"]]
    offered = {*kustomization["resources"], *files, "servicemonitor.yaml", "kustomization.yaml"}
    assert {path.name for path in (DEPLOY / "kubernetes").iterdir()} == offered
    assert "# - servicemonitor.yaml" in text


def test_all_manifests_speak_of_the_same_pods() -> None:
    labels = OURS["statefulset"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        OURS["statefulset"]["spec"]["selector"]["matchLabels"],
        OURS["service"]["spec"]["selector"],
        OURS["poddisruptionbudget"]["spec"]["selector"]["matchLabels"],
        OURS["servicemonitor"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    assert OURS["statefulset"]["spec"]["serviceName"] == OURS["service"]["metadata"]["name"]


def test_the_pods_are_probed_where_the_daemon_answers_and_are_given_time_to_stop() -> None:
    pod = OURS["statefulset"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert container["ports"] == [{"name": "http", "containerPort": 9464}]
    assert pod["terminationGracePeriodSeconds"] >= 30
    assert pod["enableServiceLinks"] is False


def test_the_pods_need_no_privileges_and_write_only_to_their_volumes() -> None:
    pod = OURS["statefulset"]["spec"]["template"]["spec"]
    uid = int(instruction("USER").split(":")[0])
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, uid)
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if not mount.get("readOnly")}
    cache = re.findall(r"NUMBA_CACHE_DIR=(\S+)", DOCKERFILE)
    assert mounts == {"/tmp", instruction("WORKDIR"), *cache}


def test_the_service_monitor_names_the_job_that_the_rules_look_for() -> None:
    monitor, service = OURS["servicemonitor"], OURS["service"]
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "streamnb"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["relabelings"][0] == {
        "sourceLabels": ["__meta_kubernetes_pod_name"],
        "targetLabel": "instance",
    }


# systemd


def test_systemd_understands_the_unit_and_finds_it_well_confined(tmp_path: Path) -> None:
    unit = tmp_path / "streamnb.service"
    here = Path(sys.executable).with_name("streamnb")
    unit.write_text(UNIT.read_text().replace("/opt/streamnb/bin/streamnb", str(here)))
    assert accepted("systemd-analyze", "verify", "--man=no", unit) == ""
    accepted("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=20", unit)


def test_the_unit_does_what_the_readme_and_the_daemon_say() -> None:
    service = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"\w+=", line))
    assert shlex.split(service["ExecStart"])[1:] == ["run", "/etc/streamnb/streamnb.yaml"]
    assert service["Type"] == "notify"
    assert service["RestartPreventExitStatus"].split() == ["64", "65", "75"]
    assert int(service["WatchdogSec"]) > load(DEPLOY / "compose" / "streamnb.yaml", {}).watchdog
    assert "MemoryDenyWriteExecute" not in service
