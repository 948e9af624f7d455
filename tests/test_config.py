"""YAML + environment -> one tree of settings, or an error that says where."""

import socket
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from streamnb.config import Config, describe, load, quick_form, time_seconds
from streamnb.config.tree import OPTIONS, Kind
from streamnb.errors import ConfigError

SAMPLE = """\
app: fraud                       # names the consumer group, transactional ids, snapshots
transport: kafka                 # or files
kafka: {bootstrap_servers: "localhost:9092", client: kafka-python, delivery: exactly_once, instance: null,
  static_membership: false, session_timeout: 10s, transaction_timeout: 15s, start_timeout: 60s, security: {}}
files: {input: events.jsonl, follow: false}
input: {labelled: [payments.labelled], unlabelled: [payments], start: earliest, on_lost_events: stop,
  on_lost_offsets: stop}
output: {predictions: payments.predictions, dead_letters: payments.dead, publish: unlabelled, explain: 0}
event: {id: id, features: features, label: label, timestamp: timestamp, weight: weight, max_ahead: 1d}
model: {kind: mixed, features: {amount: gaussian, country: categorical}, alpha: 1.0, priors: empirical,
  half_life: null, classes: null, default: auto}
limits: {event_bytes: 1048576, event_features: 10000, batch_events: 2000, classes: 1000, model_features: 10000000}
snapshots: {store: directory, path: ./snapshots, topic: null, every: 30s, keep: 3}
watchdog: 60s
http: {host: 127.0.0.1, port: 9464}
"""
SMALL = """\
app: fraud
input:
  labelled: [seen]
  unlabelled: [new]
output:
  predictions: answers
"""
FILES = {"app": "a", "transport": "files", "files": {"input": "in"}, "output": {"predictions": "out"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "streamnb.yaml"


def loaded(file: Path, text: str, environ: Mapping[str, str] | None = None, **overrides: Any) -> Config:
    file.write_text(dedent(text), encoding="utf-8")
    return load(file, environ or {}, overrides)


def error(file: Path, text: str, environ: Mapping[str, str] | None = None, **overrides: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(file, text, environ, **overrides)
    return str(caught.value).replace(str(file), "FILE")


def test_the_sample_says_what_the_defaults_are(file: Path) -> None:
    said = loaded(file, SAMPLE)
    small = "\n".join(
        [
            "app: fraud",
            "files: {input: events.jsonl}",
            "input: {labelled: [payments.labelled], unlabelled: [payments]}",
            "output: {predictions: payments.predictions, dead_letters: payments.dead}",
            "model: {features: {amount: gaussian, country: categorical}}",
        ]
    )
    assert said == loaded(file, small)


def test_durations_are_seconds(file: Path) -> None:
    text = SMALL + "kafka: {session_timeout: 500ms, transaction_timeout: 2h, start_timeout: 1.5m}\nwatchdog: 7"
    config = loaded(file, text, event={"max_ahead": "1d"}, model={"half_life": "7d"})
    kafka = config.kafka
    assert (kafka.session_timeout, kafka.transaction_timeout, kafka.start_timeout) == (0.5, 7200.0, 90.0)
    assert (config.watchdog, config.event.max_ahead, config.model.half_life) == (7.0, 86400.0, 604800.0)


@pytest.mark.parametrize(
    "value", ["0", "0s", "-1s", "1 week", "s", "1e3s", ".inf", "true", "", "[1s]", "9" * 400 + "d"]
)
def test_what_is_no_duration_above_zero_is_refused(file: Path, value: str) -> None:
    assert "FILE:7: watchdog: got " in error(file, SMALL + f"watchdog: {value}")


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("2026-01-31T12:00:00Z", 1_769_860_800.0),
        ("2026-01-31T13:00:00.5+01:00", 1_769_860_800.5),
        ("1769860800", 1_769_860_800.0),
    ],
)
def test_input_starts_at_an_end_or_at_a_time(file: Path, value: str, start: str | float) -> None:
    assert loaded(file, SMALL.replace("input:", f"input:\n  start: {value}")).input.start == start
    assert loaded(file, SMALL, {"STREAMNB_INPUT__START": value}).input.start == start


@pytest.mark.parametrize("value", ["yesterday", "2026-01-31", "2026-02-30T00:00:00Z", "true", "1e300", "null"])
def test_any_other_start_is_refused(file: Path, value: str) -> None:
    text = SMALL.replace("input:", f"input:\n  start: {value}")
    assert "FILE:3: input.start: got " in error(file, text)
    assert "RFC 3339" in error(file, text)


def test_the_host_is_the_instance_unless_one_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "höst/1.example")
    assert loaded(file, SMALL).kafka.instance == "h-st-1.example"
    assert loaded(file, SMALL, kafka={"instance": "two"}).kafka.instance == "two"


def test_a_configuration_cannot_be_changed(file: Path) -> None:
    config = loaded(file, SMALL)
    with pytest.raises(ValidationError, match="frozen"):
        config.http.port = 1  # type: ignore[misc]  # that is the point


# --- keys


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ap: x", "FILE:7: ap: unknown key; the nearest is app;"),
        ("port: 1", "FILE:7: port: unknown key; the nearest is http.port;"),
        ("kafka:\n  client: confluent\n  deliver: x", "FILE:9: kafka.deliver: unknown key; the nearest is delivery;"),
        ("kafka: {security: {pasword: x}}", "FILE:7: kafka.security.pasword: unknown key; the nearest is password;"),
        ("model: {alfa: 1}", "FILE:7: model.alfa: unknown key; the nearest is alpha;"),
        ("model: {features: {a: {kind: text, n: 1}}}", "FILE:7: model.features.a: got a mapping; n: unknown key"),
        ("zzz: 1", "FILE:7: zzz: unknown key; the nearest is "),
        ("7: 1", "FILE:7: 7: unknown key"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_its_line_and_the_nearest(file: Path, text: str, wanted: str) -> None:
    assert wanted in error(file, SMALL + text)


def test_unknown_model_options_list_those_of_the_kind(file: Path) -> None:
    message = error(file, SMALL + "model:\n  kind: gaussian\n  alfa: 1")
    assert message.endswith("allowed are kind, priors, var_smoothing, ddof, classes, half_life")


def test_an_unknown_key_does_not_show_its_value(file: Path) -> None:
    assert "hunter2" not in error(file, SMALL + "kafka: {security: {pasword: hunter2}}")


def test_everything_that_is_wrong_is_said_at_once(file: Path) -> None:
    message = error(file, SMALL + "watchdog: x\nhttp: {port: 70000}\nlimit: {}")
    assert [line.split(": ")[1] for line in message.splitlines()] == ["watchdog", "http.port", "limit"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("app: fraud", "app"), ("kafka: {}\nkafka: {}", "kafka"), ("http: {port: 1, host: x, port: 1}", "http.port"),
        ("model: {features: {a: text, 'a': text}}", "model.features.a"),
        ("model: {priors: {1: 0.5, '1': 0.5}}", "model.priors.1"),
    ],
)  # fmt: skip
def test_a_key_that_is_there_twice_is_an_error(file: Path, text: str, key: str) -> None:
    assert f": {key}: the key is there twice, first in line " in error(file, SMALL + text)


def test_an_empty_section_is_its_defaults(file: Path) -> None:
    assert loaded(file, SMALL + "kafka:\n  security:\nhttp:\n") == loaded(file, SMALL)


# --- files


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: no such file"):
        load(tmp_path / "nowhere.yaml", {})
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        load(tmp_path, {})


@pytest.mark.parametrize("text", ["- a", "just text", "7", "[a]", "'app: fraud'"])
def test_a_file_that_is_no_mapping_is_refused(file: Path, text: str) -> None:
    assert error(file, text).startswith("FILE:1: got ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [", 7), ("a: b: c", 7), ("\ta: 1", 7), ("a: 'x", 7), ("a: *nobody", 7), ("a: %x", 7), ("---\na: 1", 7),
        ("a: !!python/object:os.system x", 7), ("a: !mine x", 7), ("a: &x [*x]", 7), ("? [a]\n: 1", 7), ("1.5: x", 7),
        ("null: x", 7), ("a: " + "9" * 5000, 7),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_an_error_with_its_line(file: Path, text: str, line: int) -> None:
    assert f"FILE:{line}: " in error(file, SMALL + text).replace(f"FILE:{line + 1}: ", f"FILE:{line}: ")


def test_a_syntax_error_does_not_show_the_line_it_is_in(file: Path) -> None:
    assert "hunter2" not in error(file, SMALL + "kafka: {security: {password: hunter2")


@pytest.mark.parametrize("raw", [b"app: \xff", b"app: \0", b"[" * 600])
def test_bytes_that_are_no_yaml_are_a_configuration_error(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"streamnb\.yaml.*: not (UTF-8|YAML)"):
        load(file, {})


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40) | st.text("app: []{}-&*!|>'\"%@`#,?\n1~", max_size=30).map(str.encode))
def test_any_file_is_a_configuration_or_a_configuration_error(tmp_path_factory: Any, raw: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(raw)
    with pytest.raises(ConfigError):
        load(file, {})


def test_yes_and_no_and_dates_are_texts_as_in_json(file: Path) -> None:
    assert loaded(file, SMALL + "model: {classes: [yes, no, 2026-01-31, 1_0]}").model.classes == (
        "yes", "no", "2026-01-31", "1_0",
    )  # fmt: skip
    assert "allowed is true or false" in error(file, SMALL + "files: {follow: yes}")


def test_a_number_may_be_written_as_in_json(file: Path) -> None:
    assert loaded(file, SMALL + "model: {var_smoothing: 1e-9, alpha: 2}").model.var_smoothing == 1e-9


# --- values


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("transport: kafak", "transport: got \"kafak\"; allowed is 'kafka' or 'files'"),
        ("http: {port: 65536}", "http.port: got 65536; allowed is less than or equal to 65535"),
        ("http: {port: -1}", "http.port: got -1; allowed is greater than or equal to 0"),
        ("http: {port: true}", "http.port: got true; allowed is an integer"),
        ("http: {port: 80.5}", "http.port: got 80.5; allowed is an integer"),
        ("http: {host: 1}", "http.host: got 1; allowed is a text: write it in quotes"),
        ("http: 9464", "http: got a single value; allowed is a mapping"),
        ("limits: {event_bytes: 0}", "limits.event_bytes: got 0; allowed is greater than or equal to 1"),
        ("snapshots: {keep: 0}", "snapshots.keep: got 0;"),
        ("files: {follow: 1}", "files.follow: got 1; allowed is true or false"),
        ("model: {kind: bayes}", "model.kind: got \"bayes\"; allowed is 'mixed', 'gaussian', "),
        ("model: {alpha: -1}", "model.alpha: got -1; allowed is greater than or equal to 0"),
        ("model: {alpha: .inf}", "model.alpha: got Infinity; allowed is a finite number"),
        ("model: {features: {a: gauss}}", 'model.features.a: got "gauss"; allowed is one of gaussian, '),
        ("model: {features: [a]}", 'model.features: got ["a"]; allowed is a mapping'),
        ("model: {classes: [1.0]}", "model.classes: got [1.0]; 1.0 is not a label"),
        ("model: {classes: [1, '1']}", 'model.classes: got [1, "1"]; a label is listed twice'),
        ("model: {priors: {a: 0.5, b: 0.4}}", "model.priors: got a mapping; allowed are probabilities whose sum is 1"),
        ("model: {priors: {a: 1.5, b: -0.5}}", "model.priors: got a mapping; allowed are probabilities from 0 to 1"),
        ("event: {label: a..b}", 'event.label: got "a..b"; allowed is '),
        ("event: {id: .}", 'event.id: got "."; allowed is '),
    ],
)
def test_a_wrong_value_is_named_with_its_line_and_what_is_allowed(file: Path, text: str, wanted: str) -> None:
    assert f"FILE:7: {wanted}" in error(file, SMALL + text)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\nb", "x" * 201])
def test_names_of_app_and_instance_must_be_safe_as_file_names(file: Path, name: str) -> None:
    assert "app: got " in error(file, SMALL, app=name)
    assert "kafka.instance: got " in error(file, SMALL, kafka={"instance": name})


def test_labels_are_known_by_their_json_spelling(file: Path) -> None:
    model = loaded(
        file, SMALL + "model: {classes: [1, true, 'x', -2], priors: {true: 0.5, 1: 0.25, x: 0.25, -2: 0}}"
    ).model
    assert model.classes == ("1", "true", "x", "-2")
    assert model.priors == {"true": 0.5, "1": 0.25, "x": 0.25, "-2": 0.0}


def test_the_labels_that_may_come_are_those_of_the_priors_else_the_classes_else_any(file: Path) -> None:
    assert loaded(file, SMALL).model.labels() is None
    assert loaded(file, SMALL, model={"classes": ["a", 1]}).model.labels() == ("a", "1")
    assert loaded(file, SMALL, model={"classes": ["a"], "priors": {"a": 0.5, "b": 0.5}}).model.labels() == ("a", "b")


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_kind_takes_its_own_options_and_no_other(file: Path, kind: Kind) -> None:
    kind_options = loaded(file, SMALL, model={"kind": kind}).model.options()
    assert (kind_options[0], set(kind_options[1])) == (kind, set(OPTIONS[kind]))
    some = {
        "features": {},
        "norm": False,
        "ddof": 0,
        "binarize": 0.5,
        "weighting": "tf",
        "alpha": 1,
        "half_life": 5,
    }
    for name, value in some.items():
        if name in OPTIONS[kind]:
            assert loaded(file, SMALL, model={"kind": kind, name: value}).model.options()[1][name] == value
        else:
            message = error(file, SMALL, model={"kind": kind, name: value})
            assert message.startswith(f"command line: model.{name}: the kind {kind} has no such option; allowed are ")
            assert message.endswith(", ".join(OPTIONS[kind]))


def test_a_text_feature_may_be_written_out(file: Path) -> None:
    body = "{kind: text, stop_words: [a, the], ngrams: [1, 2]}"
    text = f"model: {{features: {{body: {body}, b: {{kind: text}}, n: {{kind: counts}}}}}}"
    assert loaded(file, SMALL + text).model.options()[1]["features"] == {
        "body": {"kind": "text", "stop_words": ("a", "the"), "ngrams": (1, 2)},
        "b": {"kind": "text"},
        "n": "counts",
    }


@pytest.mark.parametrize(
    "kind",
    [
        "{kind: text, ngrams: [2, 1]}", "{kind: text, ngrams: [0, 1]}", "{kind: text, ngrams: 2}",
        "{kind: text, ngrams: [true, 1]}", "{kind: text, hash_buckets: 0}", "{kind: text, stop_words: [1]}",
        "{kind: counts, ngrams: [1, 2]}", "{kind: words}", "{}",
    ],
)  # fmt: skip
def test_a_text_feature_written_out_wrong_is_refused(file: Path, kind: str) -> None:
    assert "FILE:7: model.features.body: got " in error(file, SMALL + f"model: {{features: {{body: {kind}}}}}")


# --- the environment and the command line


def test_every_key_can_be_set_from_the_environment(file: Path) -> None:
    environ = {
        "STREAMNB__APP": "1",
        "STREAMNB__WATCHDOG": "5s",
        "STREAMNB_KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2",
        "STREAMNB_KAFKA__SECURITY__CA_FILE": "#ca: [",
        "STREAMNB_INPUT__LABELLED": "[x, y]",
        "STREAMNB_INPUT__UNLABELLED": "z",
        "STREAMNB_MODEL__FEATURES": "{amount: gaussian}",
        "STREAMNB_EVENT__WEIGHT": "null",
        "STREAMNB_SNAPSHOTS__PATH": "/var/lib",
        "STREAMNB_HTTP__PORT": "0",
    }
    config = loaded(file, SMALL + "http: {port: 80}\nmodel: {features: {other: text}}", environ)
    assert (config.app, config.watchdog, config.http.port, config.snapshots.path) == ("1", 5.0, 0, Path("/var/lib"))
    assert (config.input.labelled, config.input.unlabelled, config.event.weight) == (("x", "y"), ("z",), None)
    assert (config.kafka.bootstrap_servers, config.kafka.security.ca_file) == ("a:1,b:2", "#ca: [")
    assert config.model.features == {"amount": "gaussian"}


def test_a_wrong_value_from_the_environment_names_the_variable(file: Path) -> None:
    message = error(file, SMALL + "http:\n  port: 80", {"STREAMNB_HTTP__PORT": "eighty"})
    assert message == 'environment variable STREAMNB_HTTP__PORT: http.port: got "eighty"; allowed is an integer'
    assert "STREAMNB_MODEL__FEATURES:1: not YAML" in error(file, SMALL, {"STREAMNB_MODEL__FEATURES": "{a"})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("STREAMNB__AP", "STREAMNB__APP"),
        ("STREAMNB_HTTP__PROT", "STREAMNB_HTTP__PORT"),
        ("STREAMNB__HTTP__PORT", "STREAMNB_HTTP__PORT"),
        ("STREAMNB_KAFKA__SECURITY", "STREAMNB_KAFKA__SECURITY__"),
        ("STREAMNB_http__port", "STREAMNB_"),
    ],
)
def test_an_unknown_variable_is_an_error_with_the_nearest_name(file: Path, name: str, nearest: str) -> None:
    message = error(file, SMALL, {name: "x"})
    assert message.startswith(f"environment variable {name}: there is no such key; the nearest is {nearest}")


def test_variables_without_two_underscores_or_of_others_are_not_read(file: Path) -> None:
    others = {"STREAMNB_HTTP_PORT": "x", "STREAMNB": "x", "OTHER__APP": "x", "PATH": "/bin"}
    assert loaded(file, SMALL, others) == loaded(file, SMALL)


def test_the_command_line_wins_over_the_environment_over_the_file(file: Path) -> None:
    text, environ = (
        SMALL + "http: {host: file, port: 1}\nwatchdog: 1s",
        {"STREAMNB_HTTP__HOST": "env", "STREAMNB_HTTP__PORT": "2"},
    )
    config = loaded(file, text, environ, http={"port": 3})
    assert (config.watchdog, config.http.host, config.http.port) == (1.0, "env", 3)


def test_a_section_that_is_no_mapping_cannot_be_added_to(file: Path) -> None:
    assert error(file, SMALL + "http: x", {"STREAMNB_HTTP__PORT": "1"}).startswith("FILE:7: http: allowed is a mapping")


def test_without_a_file_the_environment_alone_will_do() -> None:
    environ = {"STREAMNB__APP": "a", "STREAMNB_INPUT__UNLABELLED": "[t]", "STREAMNB_OUTPUT__PREDICTIONS": "p"}
    assert load(None, environ).output.predictions == "p"
    with pytest.raises(ConfigError, match="configuration: app: missing"):
        load(None, {})


def test_the_quick_form_is_named_by_the_inputs_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(None, {}, quick_form("events.jsonl", "out.jsonl"))
    assert (config.transport, config.files.input, config.output.predictions) == ("files", "events.jsonl", "out.jsonl")
    same = load(None, {}, quick_form(str(tmp_path / "events.jsonl"), "-", "dead.jsonl"))
    assert (same.app, same.output.dead_letters) == (config.app, "dead.jsonl")
    assert load(None, {}, quick_form("other.jsonl", "out.jsonl")).app != config.app
    assert config.app.startswith("quick-")


# --- rules between keys


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({"input": {"labelled": [], "unlabelled": []}}, "input: there is nothing to read"),
        ({"output": {"predictions": None}}, "output.predictions: missing"),
        ({"input": {"unlabelled": ["seen"]}}, "input.unlabelled: the topic seen is already used in input.labelled"),
        ({"input": {"labelled": ["a", "a"]}}, "input.labelled: the topic a is already used in input.labelled"),
        ({"output": {"predictions": "new"}}, "output.predictions: the topic new is already used in input.unlabelled"),
        ({"output": {"dead_letters": "seen"}}, "output.dead_letters: the topic seen is already used"),
        ({"output": {"dead_letters": "answers"}}, "output.dead_letters: the topic answers is already used"),
        ({"snapshots": {"store": "topic", "topic": "new"}}, "snapshots.topic: the topic new is already used"),
        ({"snapshots": {"store": "topic"}}, "snapshots.topic: missing"),
        ({"input": {"labelled": ["a b"]}}, "input.labelled: got 'a b'; allowed in a topic's name"),
        ({"output": {"dead_letters": ".."}}, "output.dead_letters: got '..'"),
        ({"output": {"dead_letters": "x" * 250}}, "output.dead_letters: got "),
        ({"kafka": {"security": {"protocol": "sasl_ssl"}}}, "kafka.security.sasl_mechanism: missing"),
        ({"kafka": {"security": {"cert_file": "x"}}}, "kafka.security.key_file: missing"),
        (
            {"kafka": {"security": {"password": "x", "password_file": "y"}}},
            "kafka.security.password_file: allowed is one",
        ),
        ({"event": {"label": "weight"}}, "event.weight: got weight, which overlaps with event.label"),
        ({"event": {"label": "a", "weight": "a.b"}}, "event.weight: got a.b, which overlaps with event.label"),
        ({"event": {"features": "a.b", "label": "a"}}, "event.label: got a, which overlaps with event.features"),
        (
            {"model": {"classes": ["a", "c"], "priors": {"a": 1.0}}},
            "model.classes: model.priors has no probability for c",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(file: Path, overrides: dict[str, Any], wanted: str) -> None:
    assert wanted in error(file, SMALL, **overrides)


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({"files": {"input": None}}, "files.input: missing"),
        ({"output": {"predictions": None}}, "output.predictions: missing"),
        ({"output": {"predictions": "./x/../in"}}, "output.predictions: the file "),
        ({"output": {"dead_letters": "out"}}, "output.dead_letters: the file "),
        ({"output": {"predictions": "-", "dead_letters": "-"}}, "output.dead_letters: the output - is already used"),
        ({"snapshots": {"store": "topic", "topic": "t"}}, "snapshots.store: got topic"),
    ],
)
def test_files_that_contradict_each_other_are_refused(overrides: dict[str, Any], wanted: str) -> None:
    sections = {name: {**FILES.get(name, {}), **section} for name, section in overrides.items()}  # type: ignore[dict-item]
    with pytest.raises(ConfigError) as caught:
        load(None, {}, FILES | sections)
    assert wanted in str(caught.value)


def test_standard_input_may_go_to_standard_output() -> None:
    assert load(None, {}, quick_form("-", "-")).files.input == "-"


def test_a_contradiction_names_the_line_of_the_key_to_blame(file: Path) -> None:
    assert error(file, SMALL.replace("answers", "new")).startswith("FILE:6: output.predictions: ")


def test_paths_inside_the_features_are_allowed(file: Path) -> None:
    assert loaded(file, SMALL, event={"features": "row", "label": "row.label"}).event.label == "row.label"
    assert loaded(file, SMALL, event={"features": ".", "label": "meta.label", "weight": None}).event.features == "."


# --- secrets

SASL = SMALL + "kafka:\n  security: {protocol: sasl_ssl, sasl_mechanism: PLAIN, username: me"


@pytest.mark.parametrize("content", ["hunter2", "hunter2\n", "hunter2\r\n"])
def test_a_password_may_come_from_a_file(file: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_bytes(content.encode())
    security = loaded(file, SASL + f", password_file: {tmp_path / 'secret'}}}").kafka.security
    assert security.password is not None
    assert security.password.get_secret_value() == "hunter2"


@pytest.mark.parametrize("password", ["12345", "null", "a #b", "{x", "true", " "])
def test_a_password_from_the_environment_is_taken_to_the_letter(file: Path, password: str) -> None:
    config = loaded(file, SASL + "}", {"STREAMNB_KAFKA__SECURITY__PASSWORD": password})
    assert config.kafka.security.password is not None
    assert config.kafka.security.password.get_secret_value() == password


def test_a_password_file_that_cannot_be_used_is_an_error(file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    text = SASL + ", password_file: "
    assert "cannot be read: no such file" in error(file, f"{text}{tmp_path / 'nowhere'}}}")
    assert "FILE:8: kafka.security.password_file: " in error(file, f"{text}{tmp_path / 'empty'}}}")


@pytest.mark.parametrize("value", ["[hunter2]", "{a: hunter2}", "78787878"])
def test_a_secret_of_another_type_is_refused_without_showing_it(file: Path, value: str) -> None:
    message = error(file, SASL + f", key_password: {value}}}")
    assert "kafka.security.key_password: got " in message
    assert "hunter2" not in message
    assert "7878" not in message


def test_no_secret_is_ever_shown(file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter3")
    for config in (
        loaded(file, SASL + ", password: hunter2, key_password: hunter4}"),
        loaded(file, SASL + f", password_file: {tmp_path / 'secret'}}}"),
    ):
        assert "hunter" not in describe(config) + repr(config) + str(config)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"model": {"kind": "gaussian", "half_life": 0.1, "priors": {"a": 0.1, "b": 0.9}}},
        {"model": {"features": {"a": {"kind": "text", "ngrams": [1, 3]}, "b": "counts"}, "classes": ["1", "true"]}},
        {"input": {"start": 1_769_860_800.25}, "event": {"weight": None, "max_ahead": 1e-5}, "watchdog": 1 / 3},
        {"snapshots": {"store": "topic", "topic": "s"}, "kafka": {"instance": "i"}},
    ],
)
def test_a_description_loads_to_the_same_configuration(file: Path, overrides: dict[str, Any]) -> None:
    config = loaded(file, SMALL, **overrides)
    assert loaded(file, describe(config)) == config


# --- times


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_the_first_and_last_times_that_can_be_written_have_seconds(text: str) -> None:
    assert abs(time_seconds(text)) > 6e10


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999))
def test_a_time_is_read_to_the_last_bit(seconds: int, micros: int) -> None:
    days, rest = divmod(seconds, 86_400)
    text = f"{_civil(days)}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}.{micros:06}Z"
    assert time_seconds(text) == pytest.approx(seconds + micros / 1e6, rel=1e-15, abs=1e-15)


def _civil(days: int) -> str:
    """Year, month and day of a day number (Hinnant 2013), independent of datetime."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    civil_month = month + 3 if month < 10 else month - 9
    return f"{year + era * 400 + (civil_month <= 2):04}-{civil_month:02}-{of_year - (153 * month + 2) // 5 + 1:02}"
