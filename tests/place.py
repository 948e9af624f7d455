"""A folder for the files transport, as one process after another finds it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamnb.config import FilesConfig, OutputConfig
from streamnb.transport import Batch, Committed, Output, Partition, Record
from streamnb.transport.files import FilesTransport

EVENT_BYTES = 1000
Marks = dict[str, object]


class Place:
    """A folder with an input and outputs, and transports over them as one process after another has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.input, self.out, self.dead = folder / "in.jsonl", folder / "out.jsonl", folder / "dead.jsonl"
        self.open_ones: list[FilesTransport] = []

    def transport(self, **changes: Any) -> FilesTransport:
        """Over the files, or over what `changes` says instead."""
        paths = {"input": self.input, "predictions": self.out, "dead_letters": self.dead}
        texts = {name: None if p is None else str(p) for name, p in (paths | changes).items() if name in paths}
        files = FilesConfig(input=texts["input"], follow=changes.get("follow", False))
        output = OutputConfig(predictions=texts["predictions"], dead_letters=texts["dead_letters"])
        others = {name: value for name, value in changes.items() if name in ("clock", "stop", "standard")}
        transport = FilesTransport(files, output, event_bytes=EVENT_BYTES, **others)
        self.open_ones.append(transport)
        return transport

    def started(self, marks: Mapping[str, object] | None = None, **changes: Any) -> FilesTransport:
        """Ready to read, and on duty."""
        transport = self.transport(**changes)
        transport.open()
        transport.resume(marks)
        transport.join()
        committed = transport.committed()
        partition = Partition(str(changes.get("input", self.input)), 0)
        transport.read({partition: committed[partition].offset if committed else 0})
        return transport

    def marked(self, n_lines: int = 2) -> Marks:
        """The marks after this many lines have been answered, each with itself, and a dead letter written."""
        transport = self.started()
        records = transport.poll(0, n_lines).records
        outputs = [*map(prediction, records), Output("dead_letters", None, b"bad")]
        publish(transport, outputs, records[-1].next_offset)
        marks = transport.marks()
        transport.close(0)
        return marks

    def contents(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.folder.iterdir() if p.is_file()}

    def close(self) -> None:
        for transport in self.open_ones:
            transport.close(0)


def prediction(record: Record) -> Output:
    return Output("predictions", record.key, record.value)


def publish(transport: FilesTransport, outputs: list[Output], offset: int) -> None:
    duty = transport.duty()
    assert duty is not None
    (partition,) = duty.partitions
    transport.publish(duty, outputs, {partition: Committed(offset)})


def read_all(transport: FilesTransport) -> list[Record]:
    records: list[Record] = []
    while True:
        batch = transport.poll(0, 100)
        records += batch.records
        if batch.finished:
            return records


def is_empty(batch: Batch) -> bool:
    """Whether it says nothing at all."""
    return not (batch.records or batch.positions or batch.finished)
