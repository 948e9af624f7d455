"""What commands ask the brokers from the outside, beside a daemon that may be running: nothing is joined or fenced."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kafka import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    GroupIdNotFoundError,
    KafkaError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)

from streamnb.config import InputConfig, KafkaConfig
from streamnb.errors import BrokerUnreachable
from streamnb.transport import Extent, Partition
from streamnb.transport.kafka import topics, watch
from streamnb.transport.kafka.clients import answered, connected, quiet, settings

ASK_SECONDS = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Brokers:
    """What the cluster says of itself."""

    version: str
    """Of the oldest broker, as `4.1`: the release whose requests it answers."""
    n: int
    too_old: str
    """Why they cannot do what the configuration asks, "" if they can."""


class Onlooker:
    """Asks; each question raises BrokerUnreachable if it gets no answer in time."""

    def __init__(self, kafka: KafkaConfig, admin: KafkaAdminClient) -> None:
        self._kafka, self._admin = kafka, admin

    def brokers(self) -> Brokers:
        """Ask for versions and number."""

        def ask() -> Brokers:
            nodes = [node["broker_id"] for node in self._admin.describe_cluster()["brokers"]]
            oldest = min(self._admin.get_broker_version_data(node).broker_version for node in nodes)
            too_old = topics.too_old(self._admin, self._kafka)
            return Brokers(".".join(map(str, oldest)), len(nodes), "; ".join(too_old))

        return self._answered(ask)

    def refusals(self, group: str, transactional_id: str | None) -> list[str]:
        """Ask what we are not allowed to do under our names, as far as that can be asked without joining.

        Whether a group that is not there yet could be joined is not told, only whether it may be seen.
        """
        found = []
        said = self._answered(lambda: self._said_of_group(group))
        if "READ" not in said:
            found.append(f"group {group}: not allowed to join it (READ)")
        if transactional_id is not None and not self._answered(lambda: self._may_transact(transactional_id)):
            found.append(f"transactional id {transactional_id}: not allowed to use it (WRITE)")
        return found

    def extents(self, inputs: InputConfig) -> Mapping[Partition, Extent]:
        """Ask where the logs of the input topics begin and end; a topic that is missing has none."""
        return self._answered(lambda: watch.extents(self._admin, topics.roles(inputs)))

    def remove(self, names: Sequence[str], group: str) -> list[str]:
        """Delete these topics and the group; return in words what is left."""
        removals: dict[str, Callable[[], None]] = {
            **{f"topic {name}": partial(self._remove_topic, name) for name in names},
            f"group {group}": partial(self._remove_group, group),
        }
        left = []
        for what, remove in removals.items():
            try:
                self._answered(remove)
            except BrokerUnreachable as error:
                left.append(f"{what}: {error}")
        return left

    def _remove_topic(self, name: str) -> None:
        try:
            self._admin.delete_topics([name])
        except UnknownTopicOrPartitionError:
            return

    def _remove_group(self, group: str) -> None:
        said = dict(self._admin.delete_groups([group]))[group]
        if said not in ("OK", GroupIdNotFoundError.__name__):
            raise KafkaError(said)  # it still has a member, which is leaving

    def _said_of_group(self, group: str) -> Sequence[str]:
        """The operations that are allowed; READ where the brokers do not say, as of a group that is not there yet."""
        try:
            allowed: Sequence[str] | None = self._admin.describe_groups([group])[group].get("authorized_operations")
        except AuthorizationError:
            return ()
        except GroupIdNotFoundError:
            return ("READ",)
        return ("READ",) if allowed is None else allowed

    def _may_transact(self, transactional_id: str) -> bool:
        try:
            self._admin.describe_transactions([transactional_id])
        except AuthorizationError:
            return False
        except TransactionalIdNotFoundError:
            pass
        return True

    def _answered(self, ask: Callable[[], T]) -> T:
        """Ask again for a while: a coordinator, on a new cluster, has to be made first."""
        return answered(ask, self._kafka.bootstrap_servers, min(ASK_SECONDS, self._kafka.start_timeout))


@contextmanager
def looking(kafka: KafkaConfig) -> Iterator[Onlooker]:
    """Connect for as long as the questions take. Raise BrokerUnreachable, ConfigError."""
    quiet()
    made = settings(kafka, "look")
    admin = connected(lambda: KafkaAdminClient(**made), kafka.bootstrap_servers, kafka.start_timeout)
    try:
        yield Onlooker(kafka, admin)
    finally:
        admin.close()
