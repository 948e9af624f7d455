"""Builds a daemon from its configuration: every choice between implementations is made here."""

import os
import sys
import threading
from typing import TYPE_CHECKING, Self

from streamnb import __version__, logs
from streamnb.cli.supervision import Supervision
from streamnb.config import Config
from streamnb.engine import Engine
from streamnb.errors import ConfigError, SnapshotError
from streamnb.metrics import Metrics
from streamnb.snapshots import DirectoryStore, OnDamaged, Snapshot, SnapshotStore
from streamnb.transport import Transport
from streamnb.web import WebServer

if TYPE_CHECKING:
    from streamnb.transport.kafka import Client

log = logs.get("daemon")

SWITCH_SECONDS = 0.001
"""How long another thread may keep the loop waiting for the interpreter: 5 ms by default, for every single call."""


class Daemon:
    """An engine, its metrics and its pages. Entering it takes the HTTP port; `run` then works."""

    def __init__(self, config: Config, stop: threading.Event) -> None:
        self.stop = stop
        self.metrics = metrics = Metrics(config.app, config.instance, __version__)
        self.transport = transport_of(config, stop)
        self.store = store_of(config, metrics)
        try:
            self.engine = Engine(config, self.transport, self.store, metrics, stop=stop)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"model: {error}") from error
        self._web = WebServer(
            config.http.host,
            config.http.port,
            metrics,
            lambda: self.engine.status,
            self.engine.pulse.stuck_seconds,
            config.watchdog,
            self.transport.silence,
        )

    @property
    def url(self) -> str:
        """Where the status page is."""
        return self._web.url

    def run(self) -> None:
        """Work until `stop` is set or the input ends."""
        sys.setswitchinterval(SWITCH_SECONDS)
        ended = threading.Event()
        supervision = Supervision(os.environ, lambda: self.engine.status, self.engine.pulse.stuck_seconds, ended)
        supervision.start()
        try:
            self.engine.run()
        finally:
            ended.set()
            supervision.join()
        done = self.metrics.totals()
        log.info("run.ended", **{name: done[name] for name in ("events", "predictions", "dead_letters")})

    def __enter__(self) -> Self:
        self._web.start()
        log.info("web.serves", url=self.url)
        return self

    def __exit__(self, *ending: object) -> None:
        self._web.stop()


class NoStore:
    """Keeps nothing: standard input cannot be read again, so there is nothing to go on from."""

    def open(self) -> None:
        pass

    def save(self, snapshot: Snapshot) -> int:  # noqa: ARG002  # the store's Protocol
        return 0

    def newest(self) -> Snapshot | None:
        return None

    def others(self) -> list[Snapshot]:
        return []

    def close(self) -> None:
        pass


def transport_of(config: Config, stop: threading.Event) -> Transport:
    """The transport that the configuration names; a client is imported only when it is the one."""
    match config.transport, config.kafka.client:
        case "files", _:
            from streamnb.transport.files import FilesTransport

            return FilesTransport(config.files, config.output, event_bytes=config.limits.event_bytes, stop=stop)
        case "kafka", name:
            from streamnb.transport.kafka import KafkaTransport

            return KafkaTransport(
                config.app,
                config.kafka,
                config.input,
                config.output,
                client_of(name),
                event_bytes=config.limits.event_bytes,
            )
    raise AssertionError(f"the configuration allows no transport {config.transport}")


def client_of(name: str) -> "Client":
    """The client that carries the data; ConfigError if its package is missing."""
    match name:
        case "kafka-python":
            from streamnb.transport import kafka_python

            return kafka_python.CLIENT
        case _:
            try:
                from streamnb.transport import confluent
            except ImportError as error:
                how = "pip install 'streamnb[confluent]'"
                raise ConfigError(f"kafka.client: confluent cannot be used here ({error}): {how}") from error
            return confluent.CLIENT


def topic_problems(config: Config) -> list[str]:
    """What stands in the way of reading and writing the configured topics; raise BrokerUnreachable."""
    from streamnb.transport.kafka import check

    return check(config.kafka, config.input, config.output, client_of(config.kafka.client))


def store_of(config: Config, metrics: Metrics) -> SnapshotStore:
    """The store that the configuration names; what is damaged in it is logged and counted."""

    def on_damaged(name: str, error: SnapshotError) -> None:
        log.warning("snapshot.damaged", snapshot=name, error=error)
        metrics.snapshot("damaged", 0.0, 0)

    return snapshot_store(config, on_damaged)


def snapshot_store(config: Config, on_damaged: OnDamaged) -> SnapshotStore:
    """The same, for whoever is to be told of damaged snapshots."""
    match config.snapshots.store:
        case "directory" if config.files.input == "-" and config.transport == "files":
            return NoStore()
        case "directory":
            return DirectoryStore(config.snapshots.path, config.app, config.instance, config.snapshots.keep, on_damaged)
        case "topic":
            from streamnb.snapshots.topic import TopicStore
            from streamnb.transport.kafka.compacted import CompactedTopic

            topic = CompactedTopic(config.kafka, config.snapshots.topic or "")
            return TopicStore(topic, config.app, config.instance, config.snapshots.keep, on_damaged)
