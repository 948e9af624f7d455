"""Makes the topics that a configuration names."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import ConfigError
from streamnb.transport.kafka import topics
from streamnb.transport.kafka.clients import ASK_AGAIN_SECONDS, connected, quiet, settings

BROKERS_DEFAULT = -1
KEEP_FOR_EVER = {"retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Created:
    """The topics after it."""

    made: Mapping[str, topics.Layout]
    found: Mapping[str, topics.Layout]
    """Those that were there already, and were left as they are."""


def create(
    kafka: KafkaConfig,
    input: InputConfig,  # noqa: A002  # the section's name
    output: OutputConfig,
    partitions: int | None = None,
    replicas: int | None = None,
    min_isr: int | None = None,
    snapshots: str | None = None,
) -> Created:
    """Make those that are missing; None leaves a number to the broker.

    Labelled topics keep their records for ever: a model is rebuilt from them when its snapshots are lost. The topic
    of the `snapshots` keeps the last record of every key.
    Raise BrokerUnreachable, ConfigError.
    """
    quiet()
    roles = topics.roles(input)
    client = settings(kafka, "topics")
    admin = connected(lambda: KafkaAdminClient(**client), kafka.bootstrap_servers, kafka.start_timeout)
    try:
        names = [*roles, *topics.sinks(output).values(), *([snapshots] if snapshots else [])]
        before = topics.Described(admin, names)
        in_sync = {"min.insync.replicas": str(min_isr)} if min_isr else {}
        for name in before.missing():
            kept = COMPACTED if name == snapshots else KEEP_FOR_EVER if roles.get(name) == "labelled" else {}
            number, copies = partitions or BROKERS_DEFAULT, replicas or BROKERS_DEFAULT
            admin.create_topics([NewTopic(name, number, copies, topic_configs={**kept, **in_sync})])
        after = _layouts(admin, names)
    except KafkaError as exc:
        raise ConfigError(f"kafka: {kafka.bootstrap_servers} does not make the topics: {exc}") from exc
    finally:
        admin.close()
    made = set(before.missing())
    return Created(
        made={name: after[name] for name in names if name in after and name in made},
        found={name: after[name] for name in names if name in after and name not in made},
    )


def _layouts(admin: KafkaAdminClient, names: list[str]) -> dict[str, topics.Layout]:
    """All of them, waited for while the brokers tell each other."""
    deadline = time.monotonic() + topics.SETTLED_SECONDS
    while (described := topics.Described(admin, names)).missing() and time.monotonic() < deadline:
        time.sleep(ASK_AGAIN_SECONDS)
    return described.layouts()
