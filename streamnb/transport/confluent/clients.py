"""The settings that every client of librdkafka shares, and how one is made."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError
from streamnb.transport.kafka.clients import password

log = logs.get("transport.kafka")

T = TypeVar("T")
Settings = Mapping[str, Any]


def made(make: Callable[[dict[str, Any]], T], settings: Settings) -> T:
    """Make a client, which connects in the background; raise ConfigError if librdkafka refuses its settings."""
    try:
        return make(dict(settings))
    except (KafkaException, ValueError, TypeError) as exc:
        raise ConfigError(f"kafka: librdkafka refuses these settings: {exc}") from exc


def settings(kafka: KafkaConfig, part: str) -> dict[str, Any]:
    """The settings of every client; `part` (reader, duty, ...) tells them apart in the broker's log."""
    shared: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": f"streamnb-{kafka.instance}-{part}",
        # `rebootstrap`, the default, tries again without a pause while the broker is away; and once it is back,
        # sending offsets to a transaction waits for ever.
        "metadata.recovery.strategy": "none",
        "reconnect.backoff.max.ms": 1000,  # 10 s by default: a broker that is back would not be noticed
        "error_cb": _told,  # without one, a fatal error comes out of any call, as a SystemError
        "logger": logging.getLogger("kafka.librdkafka"),  # muffled with kafka-python's own
    }
    return shared | _security(kafka)


def _told(error: KafkaError) -> None:
    """Librdkafka's commentary: whatever matters comes back from a call as well."""
    log.debug("client.says", words=error)


def _security(kafka: KafkaConfig) -> dict[str, Any]:
    security = kafka.security
    found: dict[str, Any] = {"security.protocol": security.protocol}
    if security.protocol in ("ssl", "sasl_ssl"):
        secret = security.key_password
        found |= {
            "ssl.ca.location": security.ca_file,
            "ssl.certificate.location": security.cert_file,
            "ssl.key.location": security.key_file or security.cert_file,
            "ssl.key.password": secret.get_secret_value() if secret else None,
            "ssl.endpoint.identification.algorithm": "https" if security.check_hostname else "none",
        }
    if security.protocol in ("sasl_plaintext", "sasl_ssl"):
        found |= {
            "sasl.mechanism": security.sasl_mechanism,
            "sasl.username": security.username,
            "sasl.password": password(kafka),
        }
    return {name: value for name, value in found.items() if value is not None}
