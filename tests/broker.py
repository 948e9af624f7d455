"""A real Apache Kafka for the tests: run from the jars that Maven fetches, killed, frozen, brought back."""

import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

KAFKA = "4.1.0"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamnb</groupId><artifactId>test-broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
CLUSTER = base64.b64encode(b"streamnb-tests-1").decode().rstrip("=")  # the same for all: none knows of another
JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
NEEDED = (
    "the tests need a Kafka broker: name one in STREAMNB_TEST_BOOTSTRAP (host:port), "
    "or install Java 17 and Maven (apt-get install openjdk-17-jre-headless maven)"
)


T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], seconds: float = 30.0, what: str | Callable[[], str] = "", pause: float = 0.05
) -> T:
    """Return the first true answer of `condition`; fail when it has none within this time, then saying `what`."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {seconds} s: {said or condition}")
        time.sleep(pause)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _cached(name: str) -> Path:
    cache = os.environ.get("STREAMNB_TEST_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "streamnb-tests" / name


def jars() -> Path:
    """The folder of Kafka's jars, fetched once into a cache outside the checkout."""
    folder = _cached(f"kafka-{KAFKA}")
    if folder.is_dir():
        return folder
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise RuntimeError(NEEDED)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        (Path(work) / "pom.xml").write_text(POM)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={work}/jars"]
        fetched = subprocess.run(["mvn", "-q", "-B", *goal], cwd=work, capture_output=True, text=True)
        if fetched.returncode:
            raise RuntimeError(f"maven could not fetch kafka {KAFKA}: {fetched.stdout[-2000:]}{fetched.stderr[-2000:]}")
        try:
            os.rename(f"{work}/jars", folder)
        except OSError:
            assert folder.is_dir()  # another run was faster
    return folder


def classes() -> Path:
    """Kafka's classes as the JVM maps them, which halves what a start costs, once `prepare` has been called."""
    return _cached(f"kafka-{KAFKA}.jsa")


def prepare() -> None:
    """Fetch the jars, and keep the classes of a broker that ran. A JVM of another version ignores what was kept."""
    if not classes().exists():
        with tempfile.TemporaryDirectory(dir=jars().parent) as work:
            kept = Path(work) / "classes"
            Broker(Path(work) / "broker", jvm=[f"-XX:ArchiveClassesAtExit={kept}"]).start().terminate()
            os.replace(kept, classes())


def given_cluster() -> "Cluster | None":
    """The Kafka that the environment names for the tests, if it does."""
    bootstrap = os.environ.get("STREAMNB_TEST_BOOTSTRAP")
    return Cluster(bootstrap) if bootstrap else None


class Cluster:
    """A Kafka that is there: topics are made, filled, cut and deleted."""

    def __init__(self, bootstrap: str, nodes: Sequence[int] = ()) -> None:
        """Each partition of its topics lies on all of these nodes, led by the first; without any, on one."""
        self.bootstrap, self.nodes = bootstrap, nodes
        self._admin: KafkaAdminClient | None = None

    @property
    def admin(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, reconnect_backoff_max_ms=500)
        return self._admin

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> str:
        """Make a topic of a name nobody else uses; config names are written with underscores."""
        unique = f"{name}.{uuid.uuid4().hex[:8]}"
        self.create(unique, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return unique

    def create(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        placed: dict[str, Any] = {"num_partitions": partitions, "replication_factor": 1}
        if self.nodes:
            placed = {"replica_assignments": {number: list(self.nodes) for number in range(partitions)}}
        self.admin.create_topics([NewTopic(name, topic_configs=dict(configs or {}), **placed)])
        wait_until(lambda: name in self.admin.list_topics(), what=f"topic {name}")

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])
        wait_until(lambda: name not in self.admin.list_topics(), what=f"{name} to be gone")

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(configs))])

    def cut(self, name: str, partition: int, before: int) -> None:
        """Delete the records below this offset."""
        self.admin.delete_records({TopicPartition(name, partition): before})

    def add_partitions(self, name: str, total: int) -> None:
        self.admin.create_partitions({name: total})
        wait_until(lambda: len(self.admin.describe_topics([name])[0]["partitions"]) == total, what=f"{name} to grow")

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Move a group's offsets, as an operator does while none of its members lives."""
        moved = {TopicPartition(*p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
        wait_until(
            lambda: not any(error.errno for error in self.admin.alter_group_offsets(group, moved).values()),
            what=f"the offsets of {group} to be moved",
        )

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The group's offsets, by topic and partition, as soon as a node tells of them."""

        def told() -> dict[TopicPartition, OffsetAndMetadata] | None:
            try:  # with a client of its own: one that knows a coordinator never asks for another
                with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
                    found: dict[TopicPartition, OffsetAndMetadata] = admin.list_group_offsets({group: None})[group]
            except KafkaError:
                return None
            return found

        found = wait_until(told, 60, f"the offsets of {group}")
        return {(topic, partition): at.offset for (topic, partition), at in found.items()}

    def forget(self, group: str) -> None:
        """Delete the group with all its offsets, once it has no members."""
        wait_until(
            lambda: "OK" in dict(self.admin.delete_groups([group])).values(), what=f"{group} to be without members"
        )

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def _addresses(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())


class Broker(Cluster):
    """A Kafka process (KRaft), its data in `folder`: a cluster of one, or the second node of another's."""

    _empty_logs: ClassVar[dict[str, dict[str, bytes]]] = {}  # what a node's new log consists of

    def __init__(
        self,
        folder: Path,
        listeners: Mapping[str, int] | None = None,
        *,
        second_of: "Broker | None" = None,
        jvm: Sequence[str] = (),
        **settings: str,
    ) -> None:
        """Settings may be written with underscores; `listeners` are further ones, SSL or SASL_PLAINTEXT: port."""
        port = free_port()
        more = dict(listeners or {})
        self._controller: int = second_of._controller if second_of else free_port()
        self._node, roles, own = (
            ("2", "broker", {}) if second_of else ("1", "broker,controller", {"CONTROLLER": self._controller})
        )
        super().__init__(f"127.0.0.1:{port}")
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        mapped = [f"-XX:SharedArchiveFile={classes()}"] if classes().exists() else []
        self._java = ["java", *mapped, *JVM, *jvm, "-cp", f"{jars()}/*"]
        properties = {
            "process.roles": roles,
            "node.id": self._node,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": _addresses({"PLAINTEXT": port, **own, **more}),
            "advertised.listeners": _addresses({"PLAINTEXT": port, **more}),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:{name}" for name in more)]
            ),
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "broker.session.timeout.ms": "3000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            **{name if "." in name else name.replace("_", "."): value for name, value in settings.items()},
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._properties = folder / "server.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def start(self) -> "Broker":
        """Start it, or start it again on the same ports and data, and wait until it answers."""
        if not (self.folder / "data").exists():
            self._make_log()
        with (self.folder / "broker.log").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._properties)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_until(self._answers, 120, f"the broker to answer, see {self.folder}/broker.log")
        return self

    def kill(self) -> None:
        """Kill it as a power cut would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it without closing its connections (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def damage(self, name: str, value: bytes) -> None:
        """Change one byte of this value where it lies on the disk."""
        segment = self.folder / "data" / f"{name}-0" / f"{0:020}.log"
        data = segment.read_bytes()
        with segment.open("r+b") as file:
            file.seek(data.index(value))
            file.write(bytes([value[0] ^ 1]))

    def close(self) -> None:
        super().close()
        if self.process is not None:
            self._end(signal.SIGKILL)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the broker ended at once:\n{(self.folder / 'broker.log').read_text()[-3000:]}")
        host, port = self.bootstrap.split(":")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))):
                return False
        try:
            KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=30_000).close()
        except Exception:
            return False
        return True

    def _signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _end(self, number: int) -> None:
        self._signal(number)
        if number == signal.SIGTERM:
            self._signal(signal.SIGCONT)
        assert self.process is not None
        self.process.wait(60)
        self.process = None

    def _make_log(self) -> None:
        data = self.folder / "data"
        if found := self._empty_logs.get(self._node):
            data.mkdir()
            for name, content in found.items():
                (data / name).write_bytes(content)
            return
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._properties)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"kafka's log was not made: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        self._empty_logs[self._node] = {file.name: file.read_bytes() for file in data.iterdir()}


if __name__ == "__main__":
    prepare()
