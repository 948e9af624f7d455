"""What is asked of the broker before anything is read or joined: the topics, their settings, our permissions."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, codec
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.protocol.api_key import ApiKey

from streamnb import logs
from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.transport import Role, Sink
from streamnb.transport.kafka.router import Target

log = logs.get("transport.kafka")

DEFAULT_LARGEST_BYTES = 1_048_588  # the broker's own default of max.message.bytes
NO_ERROR, UNKNOWN_TOPIC, NOT_ALLOWED = 0, 3, 29
SETTLED = (NO_ERROR, UNKNOWN_TOPIC, NOT_ALLOWED)
SETTLED_SECONDS = 10.0
CODECS = {"gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4, "zstd": codec.has_zstd}
FENCING_VERSION = 4  # of InitProducerId: Kafka 2.7


def roles(config: InputConfig) -> dict[str, Role]:
    """The configured input topics, and what each is."""
    labelled: dict[str, Role] = dict.fromkeys(config.labelled, "labelled")
    unlabelled: dict[str, Role] = dict.fromkeys(config.unlabelled, "unlabelled")
    return labelled | unlabelled


def sinks(config: OutputConfig) -> dict[Sink, str]:
    """The configured output topics."""
    named: dict[Sink, str | None] = {"predictions": config.predictions, "dead_letters": config.dead_letters}
    return {sink: topic for sink, topic in named.items() if topic is not None}


def kafka_python_reads(compression: str) -> bool:
    """Whether there is a module for it; topics may also say `producer` or `uncompressed`."""
    has_codec = CODECS.get(compression)
    return has_codec is None or bool(has_codec())


def too_old(admin: KafkaAdminClient, kafka: KafkaConfig) -> list[str]:
    """Whether these brokers let a process that was replaced come back."""
    newest = {int(key): versions[1] for key, versions in admin.api_versions().items()}
    if kafka.delivery != "exactly_once" or newest[ApiKey.InitProducerId] >= FENCING_VERSION:
        return []
    help_ = "exactly_once needs Kafka 2.7 or delivery: at_least_once"
    return [f"kafka: these brokers let a process that was replaced come back: {help_}"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a topic is laid out; what the brokers do not tell is 0 or ""."""

    partitions: int
    replicas: int
    min_isr: int
    cleanup: str
    retention_ms: str

    @property
    def kept(self) -> str:
        """Which records stay, in words."""
        if self.cleanup != "delete":
            return {"compact": "the last of each key"}.get(self.cleanup, self.cleanup)
        hours = int(self.retention_ms) / 3_600_000 if self.retention_ms.isdigit() else 0
        return "for ever" if self.retention_ms == "-1" else f"for {hours:g} h"


class Described:
    """What the broker says of these topics at this moment."""

    def __init__(self, admin: KafkaAdminClient, names: Iterable[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._topics = _described(admin, self._names)
        self._settings = _settings(admin, [name for name in self._names if name not in self.missing()])

    def missing(self) -> list[str]:
        return [name for name in self._names if self._topics[name]["error_code"] == UNKNOWN_TOPIC]

    def problems(
        self, inputs: Mapping[str, Role], outputs: Iterable[str], reads: Callable[[str], bool] = kafka_python_reads
    ) -> list[str]:
        """Everything that stands in the way of reading these topics and writing to those.

        `reads` says whether the client can read records that were compressed with a codec.
        """
        missing = self.missing()
        found = []
        if missing:
            help_ = "make them with 'streamnb topics create CONFIG'"
            found.append(f"kafka has no topic {', '.join(missing)}; {help_}")
        for topic, said in self._topics.items():
            if said["error_code"] not in (NO_ERROR, UNKNOWN_TOPIC):
                found.append(f"{topic}: not allowed to see it, or it has no leader (error {said['error_code']})")
        for topic, role in inputs.items():
            if topic not in missing:
                found += self._unreadable(topic, role, reads)
        found += [
            f"{topic}: not allowed to write"
            for topic in outputs
            if topic not in missing and not self._may(topic, "WRITE")
        ]
        return found

    def forgets(self, topic: str) -> list[str]:
        """What is wrong with a topic that must keep the last record of every key, if we may see its settings."""
        policy = "" if topic in self.missing() else self._setting(topic, "cleanup.policy")
        if policy in ("", "compact"):
            return []
        return [f"{topic}: cleanup.policy is {policy}; it must be compact, or what is kept there is deleted in time"]

    def layouts(self) -> dict[str, Layout]:
        """Those topics that are there."""
        return {
            topic: Layout(
                partitions=len(said["partitions"]),
                replicas=min((len(partition["replica_nodes"]) for partition in said["partitions"]), default=0),
                min_isr=int(self._setting(topic, "min.insync.replicas") or 0),
                cleanup=self._setting(topic, "cleanup.policy"),
                retention_ms=self._setting(topic, "retention.ms"),
            )
            for topic, said in self._topics.items()
            if said["error_code"] == NO_ERROR
        }

    def target(self, topic: str) -> Target:
        """Where records for this topic go."""
        partitions = sorted(partition["partition_index"] for partition in self._topics[topic]["partitions"])
        largest = self._setting(topic, "max.message.bytes")
        return Target(topic, partitions, int(largest) if largest else DEFAULT_LARGEST_BYTES)

    def _unreadable(self, topic: str, role: Role, reads: Callable[[str], bool]) -> list[str]:
        found = [] if self._may(topic, "READ") else [f"{topic}: not allowed to read"]
        if role == "labelled" and "compact" in self._setting(topic, "cleanup.policy"):
            why = "a compacted topic forgets labelled events, and a model could not be learned again"
            found.append(f"{topic}: cleanup.policy is {self._setting(topic, 'cleanup.policy')}: {why}")
        kind = self._setting(topic, "compression.type")
        if not reads(kind):
            found.append(f"{topic}: records are compressed with {kind}: pip install 'streamnb[codecs]'")
        return found

    def _may(self, topic: str, operation: str) -> bool:
        allowed = self._topics[topic].get("authorized_operations")
        return allowed is None or operation in allowed

    def _setting(self, topic: str, name: str) -> str:
        value = self._settings.get(topic, {}).get(name, {}).get("value")
        return value or ""


def _described(admin: KafkaAdminClient, names: list[str]) -> dict[str, Mapping[str, Any]]:
    """The topics, waited for while they are being made or get a new leader."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        found = {topic["name"]: topic for topic in admin.describe_topics(names)}
        if all(topic["error_code"] in SETTLED for topic in found.values()) or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def _settings(admin: KafkaAdminClient, names: list[str]) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The settings of these topics; none where we may not see them."""
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    try:
        described: Mapping[str, Any] = admin.describe_configs(resources, config_filter="all")
    except KafkaError as exc:
        log.warning("topics.settings_unknown", topics=names, error=exc)
        return {}
    settings: Mapping[str, Mapping[str, Mapping[str, str]]] = described["topic"]
    return settings
