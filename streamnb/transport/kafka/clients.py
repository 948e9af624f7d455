"""The settings that every client of kafka-python shares, and how one is brought up."""

import logging
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from kafka.errors import KafkaError

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable, ConfigError

log = logs.get("transport.kafka")

ASK_AGAIN_SECONDS = 0.2

T = TypeVar("T")
Settings = Mapping[str, object]


class _Muffler(logging.Handler):
    """Keeps kafka-python's commentary out of the log, and the reason why a connection failed: it raises without."""

    reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        log.debug("client.says", words=words)
        if "connection" in words and " failed: " in words:
            self.reason = words


_MUFFLER = _Muffler(logging.WARNING)


def quiet() -> None:
    """Have kafka-python's warnings, which repeat every second while a broker is away, become debug lines."""
    kafka = logging.getLogger("kafka")
    kafka.setLevel(logging.WARNING)
    kafka.propagate = False
    kafka.addHandler(_MUFFLER)


def settings(kafka: KafkaConfig, part: str) -> dict[str, object]:
    """The settings of every client; `part` (reader, duty, ...) tells them apart in the broker's log."""
    shared: dict[str, object] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "client_id": f"streamnb-{kafka.instance}-{part}",
        # One long attempt: a client that gives up leaves a thread behind.
        "bootstrap_timeout_ms": int(kafka.start_timeout * 1000),
        "reconnect_backoff_max_ms": 1000,  # 30 s by default: a broker that is back would not be noticed
    }
    return shared | _security(kafka)


def connected(make: Callable[[], T], servers: str, seconds: float) -> T:
    """Make a client that tries for this long to reach a broker; raise BrokerUnreachable if none answers."""
    try:
        return make()
    except KafkaError as exc:
        why = _MUFFLER.reason or str(exc)
        if "Authentication" in why:
            raise ConfigError(f"kafka: {servers}: the credentials are refused: {why}") from exc
        said = f"no broker answered within {seconds:g} s ({why})"
        raise BrokerUnreachable(f"kafka: {servers}: {said}; check kafka.bootstrap_servers and kafka.security") from exc


def answered(ask: Callable[[], T], servers: str, seconds: float) -> T:
    """Ask until there is an answer; raise BrokerUnreachable if there is none within this time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except KafkaError as exc:
            if time.monotonic() > deadline:
                raise BrokerUnreachable(f"kafka: {servers}: no answer within {seconds:g} s: {exc}") from exc
            time.sleep(ASK_AGAIN_SECONDS)


def _security(kafka: KafkaConfig) -> dict[str, object]:
    security = kafka.security
    found: dict[str, object] = {"security_protocol": security.protocol.upper()}
    if security.protocol in ("ssl", "sasl_ssl"):
        found["ssl_context"] = _ssl_context(kafka)
    if security.protocol in ("sasl_plaintext", "sasl_ssl"):
        found["sasl_mechanism"] = security.sasl_mechanism
        found["sasl_plain_username"] = security.username
        found["sasl_plain_password"] = password(kafka)
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
            context.load_cert_chain(str(security.cert_file), key, secret.get_secret_value() if secret else None)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"kafka.security: the TLS files cannot be used: {exc}") from None
    return context


def password(kafka: KafkaConfig) -> str | None:
    """The SASL password, from the configuration or the file that it names."""
    security = kafka.security
    if security.password_file:
        try:
            return Path(security.password_file).read_text().rstrip("\r\n")
        except OSError as exc:
            raise ConfigError(f"kafka.security.password_file: {exc}") from None
    return security.password.get_secret_value() if security.password else None
