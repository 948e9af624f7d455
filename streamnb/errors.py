"""What can go wrong, and the exit code that each ending of the daemon has.

    StreamnbError                   70
    ├── ConfigError                 64   the configuration or the command line
    ├── InputFileError              65   an input or output file that cannot be used
    ├── BrokerUnreachable           69   no broker answered at the start
    ├── WatchdogError               70   the loop, or too many client calls, hang
    ├── IoError                     74   port in use, disk, permissions
    ├── StateError                  75   going on would lose or double events
    │   ├── Fenced                       another process has our transactional id
    │   ├── LostEvents                   records that were due are gone from the log
    │   ├── LostOffsets                  the group's committed offsets are gone
    │   └── StateMismatch                snapshot, configuration and log do not belong together
    ├── SnapshotError                    a snapshot that is damaged or of another format
    ├── EventError                       one event that becomes a dead letter
    ├── DutyLost                         the group has moved on; the answers belong to another owner
    ├── PublishUnknown                   nobody knows whether the transaction was committed
    │   └── OutputTooLarge               one output is larger than its topic takes
    └── OutputClosed                 0   whoever read our standard output has gone

Messages are lower case and say what, where, got, and what is allowed or helps.
"""

from typing import Literal

Reason = Literal[
    "not_json",
    "not_utf8",
    "no_features",
    "bad_feature",
    "bad_label",
    "bad_weight",
    "bad_timestamp",
    "too_large",
    "too_many_features",
    "too_many_classes",
]


class StreamnbError(Exception):
    """Anything that streamnb raises on purpose, apart from the learners' ValueError and TypeError."""

    exit_code = 70


class ConfigError(StreamnbError):
    """The configuration or the command line is wrong."""

    exit_code = 64


class InputFileError(StreamnbError):
    """A file to read from or to append to cannot be used; it was not touched."""

    exit_code = 65


class BrokerUnreachable(StreamnbError):
    """No broker answered within `kafka.start_timeout`."""

    exit_code = 69


class WatchdogError(StreamnbError):
    """The loop hangs, or too many client calls have been abandoned."""

    exit_code = 70


class IoError(StreamnbError):
    """The operating system refused: port in use, disk full, no permission."""

    exit_code = 74


class StateError(StreamnbError):
    """Going on would lose or double events."""

    exit_code = 75


class Fenced(StateError):
    """Another living process uses our transactional id."""


class LostEvents(StateError):
    """Records that were still to be learned or answered are gone from the log."""


class LostOffsets(StateError):
    """The group no longer knows an offset that the snapshot saw committed."""


class StateMismatch(StateError):
    """Snapshot, configuration and log do not belong together."""


class SnapshotError(StreamnbError):
    """A snapshot is damaged, or of a format this version does not know."""


class DutyLost(StreamnbError):
    """The group has moved on: the batch's answers are dropped and their offsets read again."""


class PublishUnknown(StreamnbError):
    """The transaction failed or timed out, so the group must be asked what was committed."""


class OutputTooLarge(PublishUnknown):
    """One output is larger than its topic takes: nothing was published, nor will be until this one is smaller."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class OutputClosed(StreamnbError):
    """Nobody reads standard output any more (`... | head`): end as after SIGTERM."""

    exit_code = 0


class EventError(StreamnbError):
    """One event cannot be used; it becomes a dead letter with this reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


def why(error: OSError) -> str:
    """Return the system's reason in the lower case of our messages."""
    return (error.strerror or str(error)).lower()
