"""Starts Python programs as forks of one that has imported what they need.

A start of the daemon is two seconds of work, most of it imports, and the tests of faults start hundreds. What begins
in a fork goes on as after an exec: its own session, folder, environment and output, and nothing of the tests. Only the
hashes of strings are those of the process that was forked: other tests start the daemon as users do.
`python tests/forking.py` is that process; it ends with the one that has started it.
"""

import ctypes
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

NEEDED = (
    *("streamnb.cli.wiring", "streamnb.cli.run", "streamnb.cli.check", "uvicorn.protocols.http.h11_impl"),
    *("streamnb.transport.kafka", "streamnb.transport.confluent", "tests.dying"),
)
PR_SET_CHILD_SUBREAPER = 36


class Forked:
    """One program, as `subprocess.Popen` would hold it."""

    def __init__(self, pid: int, command: Sequence[str]) -> None:
        self.pid, self.returncode = pid, None
        self._command, self._lock = command, threading.Lock()

    returncode: int | None

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._command, timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def started(arguments: Sequence[str], folder: Path, log: Path, environ: Mapping[str, str]) -> Forked:
    """Run `python ARGUMENTS`, which begin with a script or with `-m MODULE`."""
    with _asking:
        server = _server()
        assert server.stdin
        assert server.stdout
        asked = {"arguments": list(arguments), "folder": str(folder), "log": str(log), "environ": dict(environ)}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        return Forked(int(server.stdout.readline()), arguments)


_asking = threading.Lock()


@cache
def _server() -> "subprocess.Popen[str]":
    """One for each process of tests, which takes over its orphans: those are then its children."""
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _load_kernels() -> None:
    """Load those of the model that the tests of faults have, as the daemon does when it starts."""
    from streamnb import MixedNB

    model = MixedNB()
    rows = model.rows()
    rows.append({}, "any", 1.0, 0.0)
    model.predict_learn_rows(rows)


def _serve() -> list[str]:
    """Fork for each line on standard input; return, in a fork, what is to be run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    gc.collect()
    gc.freeze()
    while line := sys.stdin.readline():
        come, go = os.pipe()
        middle = os.fork()
        if middle == 0:
            pid = os.fork()
            if pid == 0:
                os.close(come)
                os.close(go)
                return _become(**json.loads(line))
            os.write(go, b"%d\n" % pid)
            os._exit(0)
        os.close(go)
        os.waitpid(middle, 0)  # only then it is an orphan
        with os.fdopen(come) as pipe:
            print(pipe.read(), end="", flush=True)
    raise SystemExit


def _become(arguments: list[str], folder: str, log: str, environ: dict[str, str]) -> list[str]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.unfreeze()
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for path, flags, targets in ((os.devnull, os.O_RDONLY, [0]), (log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, [1, 2])):
        file = os.open(path, flags, 0o666)
        for target in targets:
            os.dup2(file, target)
        os.close(file)
    return arguments


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        sys.path[0] = str(Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    for name in NEEDED:
        __import__(name)
    _load_kernels()
    _run(_serve())
