"""Children that are killed, at a chosen system call or at any moment, and children without privileges."""

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

_CHANGING_CALLS = ("open", "write", "pwrite", "fsync", "ftruncate", "rename", "unlink", "mkdir")
NOBODY = 65534


def dies_at(call: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed at its `call`-th change to a file; False if it ended before that.

    A write that is fatal is done by half.
    """

    def doomed() -> object:
        left = call

        def fatal(original: Callable[..., Any], args: tuple[Any, ...]) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                if original is write:
                    original(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)

        write = os.write
        for name in _CHANGING_CALLS:
            _precede(name, fatal)
        return work()

    status = os.waitstatus_to_exitcode(_child(doomed))
    assert status in (0, -signal.SIGKILL), "the child failed, see its traceback"
    return status != 0


def killed_after(n_lines: int, work: Callable[[Callable[[int], None]], object]) -> list[int]:
    """Run `work` in a child, and kill it once it has told this many numbers; return all that it told."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run(lambda: work(lambda number: os.write(writer, b"%d\n" % number)))
    os.close(writer)
    with open(reader) as told:
        try:
            numbers = [int(told.readline()) for _ in range(n_lines)]
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return numbers + [int(line) for line in told if line.endswith("\n")]


def as_nobody(work: Callable[[], object]) -> str:
    """Run `work` in a child that is not root; return the error that ended it, as 'Type: message', or ''."""
    reader, writer = os.pipe()

    def unprivileged() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            work()
        except Exception as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())

    status = _child(unprivileged)
    os.close(writer)
    with open(reader, "rb") as told:
        assert status == 0
        return told.read().decode()


def _precede(name: str, hook: Callable[[Callable[..., Any], tuple[Any, ...]], None]) -> None:
    original = getattr(os, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        hook(original, args)
        return original(*args, **kwargs)

    setattr(os, name, wrapped)


def _child(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        _run(work)
    return os.waitpid(child, 0)[1]


def _run(work: Callable[[], object]) -> NoReturn:
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
