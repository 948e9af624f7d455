"""TLS and passwords, against a broker that asks for them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamnb.cli.wiring import client_of
from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import BrokerUnreachable, ConfigError
from streamnb.transport import Committed, Output, Partition
from streamnb.transport.kafka import KafkaTransport
from tests.broker import Broker, free_port
from tests.lives import CLIENTS
from tests.transports import committed_records, on_duty

PASSWORD = "correct horse"


class Guarded:
    """A broker with a TLS and a SASL listener, and the certificate it shows."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "broker.pem"
        store = folder / "broker.p12"
        keystore = ["-keystore", str(store), "-storepass", "storepass", "-alias", "broker"]
        name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1"]
        _keytool("-genkeypair", "-keyalg", "RSA", "-validity", "2", *name, *keystore)
        _keytool("-exportcert", "-rfc", "-file", str(self.certificate), *keystore)
        self.ports = {"SSL": free_port(), "SASL_PLAINTEXT": free_port()}
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self.broker = Broker(
            folder / "broker",
            self.ports,
            ssl_keystore_location=str(store),
            ssl_keystore_password="storepass",
            sasl_enabled_mechanisms="PLAIN",
            **{"listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_ann="{PASSWORD}";'},
        ).start()
        self.client = "kafka-python"
        self.labelled, self.predictions = self.broker.topic("labelled"), self.broker.topic("predictions")

    def transport(self, listener: str, **security: Any) -> KafkaTransport:
        kafka = KafkaConfig(
            bootstrap_servers=f"127.0.0.1:{self.ports[listener]}",
            instance="a",
            start_timeout=5,
            security={"protocol": listener.lower(), **security},
        )
        outputs = OutputConfig(predictions=self.predictions)
        return KafkaTransport(
            f"app-{listener}", kafka, InputConfig(labelled=[self.labelled]), outputs, client_of(self.client)
        )


def _keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.broker.close()


@pytest.fixture(params=CLIENTS)
def guarded(guarded_broker: Guarded, request: pytest.FixtureRequest) -> Guarded:
    guarded_broker.client = request.param
    return guarded_broker


def publishes(guarded: Guarded, transport: KafkaTransport, value: bytes) -> bool:
    """Whether one answer gets through, on every client that the transport has."""
    try:
        transport.open()
        outputs = [Output("predictions", None, value)]
        transport.publish(on_duty(transport), outputs, {Partition(guarded.labelled, 0): Committed(1)})
    finally:
        transport.close(5)
    found = committed_records(guarded.broker.bootstrap, guarded.predictions)
    return value in [record.value for record in found]


def test_it_works_over_tls(guarded: Guarded) -> None:
    assert publishes(guarded, guarded.transport("SSL", ca_file=str(guarded.certificate)), b"tls")


def test_it_works_with_a_password(guarded: Guarded) -> None:
    login = {"sasl_mechanism": "PLAIN", "username": "ann", "password": PASSWORD}
    assert publishes(guarded, guarded.transport("SASL_PLAINTEXT", **login), b"sasl")


def test_it_works_with_a_password_from_a_file(guarded: Guarded, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    login = {"sasl_mechanism": "PLAIN", "username": "ann", "password_file": str(secret)}
    assert publishes(guarded, guarded.transport("SASL_PLAINTEXT", **login), b"sasl from a file")


def test_a_wrong_password_is_an_error_that_points_to_the_section_and_does_not_tell_it(guarded: Guarded) -> None:
    login = {"sasl_mechanism": "PLAIN", "username": "ann", "password": "wrong donkey"}
    # kafka-python often sees only that the broker hangs up, which a broker of another kind does too
    with pytest.raises((ConfigError, BrokerUnreachable), match=r"credentials|kafka\.security") as refused:
        guarded.transport("SASL_PLAINTEXT", **login).open()
    assert "donkey" not in str(refused.value)


def test_a_broker_whose_certificate_nobody_vouches_for_is_not_spoken_to(guarded: Guarded) -> None:
    with pytest.raises(BrokerUnreachable, match="certificate"):
        guarded.transport("SSL").open()


def test_a_file_that_is_not_there_is_named(guarded: Guarded) -> None:
    with pytest.raises(ConfigError, match=r"no-such\.pem|No such file"):
        guarded.transport("SSL", ca_file="no-such.pem").open()
