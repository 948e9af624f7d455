"""The settings that every client shares, and how a client is brought up."""

import logging
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from kafka.errors import KafkaError

from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable, ConfigError

T = TypeVar("T")
Settings = Mapping[str, object]


def quiet() -> None:
    """Keep kafka-python's own running commentary out of the log."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def settings(kafka: KafkaConfig, part: str) -> dict[str, object]:
    """The settings of every client; `part` (reader, duty, ...) tells them apart in the broker's log."""
    shared: dict[str, object] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "client_id": f"streamnb-{kafka.instance}-{part}",
        "bootstrap_timeout_ms": 2000,
        "reconnect_backoff_max_ms": 1000,  # 30 s by default: a broker that is back would not be noticed
    }
    return shared | _security(kafka)


def _security(kafka: KafkaConfig) -> dict[str, object]:
    security = kafka.security
    found: dict[str, object] = {"security_protocol": security.protocol.upper()}
    if security.protocol in ("ssl", "sasl_ssl"):
        found["ssl_context"] = _ssl_context(kafka)
    if security.protocol in ("sasl_plaintext", "sasl_ssl"):
        found["sasl_mechanism"] = security.sasl_mechanism
        found["sasl_plain_username"] = security.username
        found["sasl_plain_password"] = _password(kafka)
    return found


def _ssl_context(kafka: KafkaConfig) -> ssl.SSLContext:
    """A context of our own, since kafka-python ignores some of its TLS settings."""
    security = kafka.security
    try:
        context = ssl.create_default_context(cafile=security.ca_file and str(security.ca_file))
        context.check_hostname = security.check_hostname
        if security.cert_file:
            secret = security.key_password
            key = security.key_file and str(security.key_file)
            context.load_cert_chain(
                str(security.cert_file), key, secret.get_secret_value() if secret else None
            )
    except (OSError, ValueError) as exc:
        raise ConfigError(f"kafka.security: the TLS files cannot be used: {exc}") from None
    return context


def _password(kafka: KafkaConfig) -> str | None:
    security = kafka.security
    if security.password_file:
        try:
            return Path(security.password_file).read_text().rstrip("\r\n")
        except OSError as exc:
            raise ConfigError(f"kafka.security.password_file: {exc}") from None
    return security.password.get_secret_value() if security.password else None


def connected(make: Callable[[], T], servers: str, seconds: float) -> T:
    """Make a client, trying again until a broker answers; raise BrokerUnreachable after this many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return make()
        except KafkaError as exc:
            if "Authentication" in type(exc).__name__:
                raise ConfigError(f"kafka: {servers} refuses the credentials: {exc}") from None
            if time.monotonic() > deadline:
                why = f"no broker answered within {seconds:g} s ({exc})"
                raise BrokerUnreachable(f"kafka: {servers}: {why}; check kafka.bootstrap_servers") from exc
