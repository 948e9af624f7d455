"""Every name and default of the configuration, as frozen values."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, SecretStr, ValidationError

from streamnb.config.units import FIRST_SECOND, LAST_SECOND, duration_seconds, time_seconds

Kind = Literal["mixed", "gaussian", "multinomial", "complement", "bernoulli", "categorical"]
FeatureKindName = Literal["gaussian", "categorical", "bernoulli", "counts", "text"]
EXAMPLES: Mapping[FeatureKindName, object] = {
    "gaussian": 0.5,
    "categorical": "a",
    "bernoulli": True,
    "counts": 1,
    "text": "two words",
}
KIND_OF_FEATURES: Mapping[Kind, FeatureKindName] = {
    "gaussian": "gaussian",
    "multinomial": "counts",
    "complement": "counts",
    "bernoulli": "bernoulli",
    "categorical": "categorical",
}

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mixed": (
        "features", "default", "alpha", "var_smoothing", "ddof", "binarize", "unseen", "weighting",
        "priors", "smooth_priors", "classes", "half_life",
    ),
    "gaussian": ("priors", "var_smoothing", "ddof", "classes", "half_life"),
    "multinomial": ("alpha", "priors", "smooth_priors", "unseen", "weighting", "classes", "half_life"),
    "complement": ("alpha", "norm", "priors", "smooth_priors", "classes", "half_life"),
    "bernoulli": ("alpha", "binarize", "priors", "smooth_priors", "classes", "half_life"),
    "categorical": ("alpha", "unseen", "priors", "smooth_priors", "classes", "half_life"),
}  # fmt: skip
"""The options of each learner, in the order in which they are shown."""

SERVER = re.compile(r"(?:[A-Z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\],]+)(?::[0-9]{1,5})?")
SAFE_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,200}")


class Section(BaseModel):
    """One frozen mapping of the file; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def spelled(label: object) -> str:
    """A label by its JSON spelling, as in events: 1 is "1", true is "true"; ValueError for anything else."""
    match label:
        case bool():
            return "true" if label else "false"
        case int() | str():
            return str(label)
    raise ValueError(f"{label!r} is not a label: allowed are texts, integers and booleans")


def _duration(value: object) -> float:
    return duration_seconds(value)


def _positive_duration(value: object) -> float:
    seconds = duration_seconds(value)
    if not seconds:
        raise ValueError("allowed is a duration above 0")
    return seconds


def _start(value: object) -> str | float:
    if value in ("earliest", "latest"):
        return str(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and FIRST_SECOND <= value < LAST_SECOND:
        return float(value)
    if isinstance(value, str):
        try:
            return time_seconds(value)
        except ValueError:
            pass
    raise ValueError("allowed is earliest, latest, an RFC 3339 time or seconds since 1970")


def _safe_name(value: object) -> str:
    if isinstance(value, str) and SAFE_NAME.fullmatch(value):
        return value
    raise ValueError("allowed are 1 to 200 of the characters A-Z a-z 0-9 . _ -")


def _servers(value: object) -> str:
    if isinstance(value, str) and all(SERVER.fullmatch(server.strip()) for server in value.split(",")):
        return value
    raise ValueError("allowed is HOST:PORT, or several of them joined by commas")


def _names(value: object) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("allowed is a list of names")
    return tuple(names)


def _event_path(value: object) -> str:
    if isinstance(value, str) and all(value.split(".")):
        return value
    raise ValueError("allowed is the name of a key, or names joined by dots")


def _features_path(value: object) -> str:
    return "." if value == "." else _event_path(value)


def _labels(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("allowed is a list of labels, or null")
    labels = tuple(spelled(label) for label in value)
    if len(set(labels)) < len(labels):
        raise ValueError("a label is listed twice (labels are compared by their spelling)")
    return labels


def _priors(value: object) -> object:
    if value in ("empirical", "uniform"):
        return value
    if not isinstance(value, Mapping) or not value:
        raise ValueError("allowed is empirical, uniform, or a mapping from labels to probabilities")
    priors = {spelled(label): p for label, p in value.items()}
    if any(type(p) not in (int, float) or not 0 <= p <= 1 for p in priors.values()):
        raise ValueError("allowed are probabilities from 0 to 1")
    if len(priors) < len(value) or abs(sum(priors.values()) - 1) > 1e-9:
        raise ValueError("allowed are probabilities whose sum is 1, each label once")
    return {label: float(p) for label, p in priors.items()}


def _ngrams(value: object) -> tuple[int, int]:
    match value:
        case [int() as shortest, int() as longest] if 1 <= shortest <= longest and shortest is not True:
            return shortest, longest
    raise ValueError("allowed are two integers, the shortest and the longest, from 1")


class TextKind(Section):
    """A text feature with its own reading options."""

    kind: Literal["text"]
    stop_words: Annotated[tuple[str, ...], PlainValidator(_names)] = ()
    ngrams: Annotated[tuple[int, int], PlainValidator(_ngrams)] = (1, 1)
    hash_buckets: Annotated[int, Field(ge=1)] | None = None


def _feature_kind(value: object) -> object:
    kinds = get_args(FeatureKindName)
    if isinstance(value, TextKind) or value in kinds:
        return value
    if not isinstance(value, Mapping) or value.get("kind") not in kinds:
        options = ", ".join(TextKind.model_fields)
        raise ValueError(f"allowed is one of {', '.join(kinds)}, or a mapping with {options}")
    if value["kind"] == "text":
        return _text_kind(value)
    if len(value) > 1:
        raise ValueError("only the kind text has options of its own")
    return value["kind"]


def _text_kind(options: Mapping[str, object]) -> TextKind:
    try:
        return TextKind.model_validate(dict(options))
    except ValidationError as exc:
        problem = exc.errors()[0]
        allowed = f"; allowed are {', '.join(TextKind.model_fields)}"
        unknown = problem["type"] == "extra_forbidden"
        raise ValueError(f"{problem['loc'][0]}: {'unknown key' + allowed if unknown else problem['msg']}") from exc


Duration = Annotated[float, PlainValidator(_duration)]
PositiveDuration = Annotated[float, PlainValidator(_positive_duration)]
SafeName = Annotated[str, PlainValidator(_safe_name)]
Names = Annotated[tuple[str, ...], PlainValidator(_names)]
EventPath = Annotated[str, PlainValidator(_event_path)]
FeaturesPath = Annotated[str, PlainValidator(_features_path)]
FilePath = Annotated[Path, BeforeValidator(lambda value: Path(value) if isinstance(value, str) else value)]
Start = Annotated[Literal["earliest", "latest"] | float, PlainValidator(_start)]
Labels = Annotated[tuple[str, ...] | None, PlainValidator(_labels)]
Priors = Annotated[Literal["empirical", "uniform"] | dict[str, float], PlainValidator(_priors)]
FeatureKind = Annotated[FeatureKindName | TextKind, PlainValidator(_feature_kind)]
Servers = Annotated[str, PlainValidator(_servers)]
Count = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


class SecurityConfig(Section):
    """How to reach the brokers. Once loaded, `password` holds the text of `password_file`."""

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    ca_file: Text | None = None
    cert_file: Text | None = None
    key_file: Text | None = None
    key_password: SecretStr | None = None
    check_hostname: bool = True
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: Text | None = None
    password: SecretStr | None = None
    password_file: Text | None = None


class KafkaConfig(Section):
    bootstrap_servers: Servers = "localhost:9092"
    client: Literal["kafka-python", "confluent"] = "kafka-python"
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    instance: SafeName | None = None
    """The host name, once the configuration is loaded."""
    static_membership: bool = False
    session_timeout: PositiveDuration = 10.0
    transaction_timeout: PositiveDuration = 15.0
    start_timeout: PositiveDuration = 60.0
    security: SecurityConfig = SecurityConfig()


class FilesConfig(Section):
    input: Text | None = None
    follow: bool = False


class InputConfig(Section):
    labelled: Names = ()
    unlabelled: Names = ()
    start: Start = "earliest"
    on_lost_events: Literal["stop", "accept"] = "stop"
    on_lost_offsets: Literal["stop", "earliest", "latest", "snapshot"] = "stop"


class OutputConfig(Section):
    """Topics, or paths where the transport is files."""

    predictions: Text | None = None
    dead_letters: Text | None = None
    publish: Literal["unlabelled", "all"] = "unlabelled"
    explain: Annotated[int, Field(ge=0)] = 0


class EventConfig(Section):
    """Where things are in an event. A path that is null is never looked for."""

    id: EventPath | None = "id"
    features: FeaturesPath = "features"
    """"." is the event itself, less what the other paths lead to."""
    label: EventPath | None = "label"
    timestamp: EventPath | None = "timestamp"
    weight: EventPath | None = "weight"
    max_ahead: Duration = 86400.0


class ModelConfig(Section):
    """The learner's kind and its options; `options` passes on those that the kind has."""

    kind: Kind = "mixed"
    features: dict[str, FeatureKind] = {}
    default: Literal["auto", "ignore"] = "auto"
    alpha: NotNegative = 1.0
    norm: bool = False
    var_smoothing: NotNegative = 1e-9
    ddof: Annotated[int, Field(ge=0)] = 0
    binarize: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    unseen: Literal["ignore", "smooth"] = "ignore"
    weighting: Literal["tf", "log1p", "tfidf"] = "tf"
    priors: Priors = "empirical"
    smooth_priors: bool = False
    classes: Labels = None
    half_life: PositiveDuration | None = None

    def options(self) -> tuple[Kind, dict[str, object]]:
        """The arguments of `learners.build`."""
        options = {name: getattr(self, name) for name in OPTIONS[self.kind]}
        if "features" in options:
            options["features"] = {name: _written(kind) for name, kind in self.features.items()}
        return self.kind, options

    def labels(self) -> Sequence[str] | None:
        """The only labels that events may carry, None if any may come."""
        return tuple(self.priors) if isinstance(self.priors, dict) else self.classes

    def example(self) -> dict[str, object]:
        """Features of every kind that events are declared to have."""
        kinds = self.features if self.kind == "mixed" else {"a": KIND_OF_FEATURES[self.kind]}
        return {name: EXAMPLES["text" if isinstance(kind, TextKind) else kind] for name, kind in kinds.items()}


def _written(kind: FeatureKindName | TextKind) -> object:
    return kind.model_dump(exclude_unset=True) if isinstance(kind, TextKind) else kind


class LimitsConfig(Section):
    event_bytes: Count = 1_048_576
    event_features: Count = 10_000
    batch_events: Count = 2_000
    classes: Count = 1_000
    model_features: Count = 10_000_000


class SnapshotsConfig(Section):
    store: Literal["directory", "topic"] = "directory"
    path: FilePath = Path("snapshots")
    topic: Text | None = None
    every: PositiveDuration = 30.0
    keep: Count = 3

    @property
    def place(self) -> str:
        """Where they are kept, in words."""
        return f"topic {self.topic}" if self.store == "topic" else str(self.path)


class HttpConfig(Section):
    host: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9464


class Config(Section):
    app: SafeName
    transport: Literal["kafka", "files"] = "kafka"
    kafka: KafkaConfig = KafkaConfig()
    files: FilesConfig = FilesConfig()
    input: InputConfig = InputConfig()
    output: OutputConfig = OutputConfig()
    event: EventConfig = EventConfig()
    model: ModelConfig = ModelConfig()
    limits: LimitsConfig = LimitsConfig()
    snapshots: SnapshotsConfig = SnapshotsConfig()
    watchdog: PositiveDuration = 60.0
    http: HttpConfig = HttpConfig()

    @property
    def instance(self) -> str:
        """This process's name among those of the app, which `load` has filled in."""
        assert self.kafka.instance is not None, "a configuration is made by load()"
        return self.kafka.instance


def section_at(path: Sequence[str | int]) -> type[Section] | None:
    """The section that a path leads to, None where it leads to a value or nowhere."""
    section: type[Section] = Config
    for name in path:
        info = section.model_fields.get(str(name))
        if info is None or not (isinstance(info.annotation, type) and issubclass(info.annotation, Section)):
            return None
        section = info.annotation
    return section
