"""TLS and SCRAM from the daemon's side, and no secret in anything that it shows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from tests.broker import Broker, free_port
from tests.lives import SLOW, Fleet, answered, finish
from tests.oracle import Workload

USER, PASSWORD, WRONG = "ann", "correct-horse", "wrong-donkey"
KEY_PASSWORD = "storepass"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, dict[str, object]]]:
    """A broker with a listener that asks for TLS and SCRAM, and the settings that satisfy it but for the password."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    certificate, store = folder / "broker.pem", folder / "broker.p12"
    kept = ["-keystore", str(store), "-storepass", KEY_PASSWORD, "-alias", "broker"]
    name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1"]
    for command in (
        ["-genkeypair", "-keyalg", "RSA", "-validity", "2", *name, *kept],
        ["-exportcert", "-rfc", "-file", str(certificate), *kept],
    ):
        subprocess.run(["keytool", *command], check=True, capture_output=True)
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    broker = Broker(
        folder / "broker",
        {"SASL_SSL": port},
        ssl_keystore_location=str(store),
        ssl_keystore_password=KEY_PASSWORD,
        **{
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        },
    ).start()
    broker.admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, PASSWORD)]
    )
    yield (
        broker,
        {
            "bootstrap_servers": f"127.0.0.1:{port}",
            "security": {
                "protocol": "sasl_ssl",
                "ca_file": str(certificate),
                "sasl_mechanism": "SCRAM-SHA-512",
                "username": USER,
            },
        },
    )
    broker.close()


@pytest.fixture
def work(guarded: tuple[Broker, dict[str, object]]) -> Iterator[Workload]:
    made = Workload(guarded[0])
    yield made
    made.close()


def check(folder: Path, **environ: str) -> str:
    """What `streamnb check` prints."""
    command = [sys.executable, "-m", "streamnb", "check", "config.yaml", "--debug"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environ})
    return done.stdout + done.stderr


def test_the_daemon_works_over_tls_and_scram_and_shows_its_password_nowhere(guarded, work: Workload, fleet: Fleet):
    _, kafka = guarded
    daemon = fleet.daemon(work, kafka=kafka, options=["--log-level", "debug", "--debug"])
    secret = {"STREAMNB_KAFKA__SECURITY__PASSWORD": PASSWORD}
    shown = [check(daemon.folder, **secret)]
    daemon.start(**secret)
    work.produce(100)
    answered(work, daemon)
    shown += [daemon.get(path)[1] for path in ("/model", "/", "/metrics", "/readyz", "/healthz")]
    finish(work, daemon)
    shown += [daemon.log(), *(str(letter.headers) for letter in work.committed(work.dead))]
    assert "topics         ok" in shown[0]
    assert all(shown)
    assert not [text for text in shown if PASSWORD in text]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_wrong_password_ends_it_with_a_hint_and_is_not_repeated(guarded, work: Workload, fleet: Fleet, delivery: str):
    _, kafka = guarded
    daemon = fleet.daemon(work, kafka={**kafka, "start_timeout": "5s", "delivery": delivery})
    assert daemon.start(STREAMNB_KAFKA__SECURITY__PASSWORD=WRONG).wait(SLOW) in (64, 69)
    assert "kafka.security" in daemon.log() or "credentials" in daemon.log()
    assert WRONG not in daemon.log() + check(daemon.folder, STREAMNB_KAFKA__SECURITY__PASSWORD=WRONG)
