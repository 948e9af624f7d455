"""Makes the topics that a configuration names."""

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import ConfigError
from streamnb.transport.kafka import topics
from streamnb.transport.kafka.clients import connected, quiet, settings

BROKERS_DEFAULT = -1
KEEP_FOR_EVER = {"retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact"}


def create(
    kafka: KafkaConfig,
    input: InputConfig,  # noqa: A002  # the section's name
    output: OutputConfig,
    partitions: int | None,
    replicas: int | None,
    snapshots: str | None = None,
) -> list[str]:
    """Make those that are missing and return their names; None leaves a number to the broker.

    Labelled topics keep their records for ever: a model is rebuilt from them when its snapshots are lost. The topic
    of the `snapshots` keeps the last record of every key.
    Raise BrokerUnreachable, ConfigError.
    """
    quiet()
    roles = topics.roles(input)
    client = settings(kafka, "topics")
    admin = connected(lambda: KafkaAdminClient(**client), kafka.bootstrap_servers, kafka.start_timeout)
    try:
        own = [snapshots] if snapshots else []
        missing = topics.Described(admin, [*roles, *topics.sinks(output).values(), *own]).missing()
        for name in missing:
            kept = COMPACTED if name == snapshots else KEEP_FOR_EVER if roles.get(name) == "labelled" else {}
            topic = NewTopic(name, partitions or BROKERS_DEFAULT, replicas or BROKERS_DEFAULT, topic_configs=kept)
            admin.create_topics([topic])
    except KafkaError as exc:
        raise ConfigError(f"kafka: {kafka.bootstrap_servers} does not make the topics: {exc}") from exc
    finally:
        admin.close()
    return missing
