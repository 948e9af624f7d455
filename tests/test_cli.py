"""The command line: what it says, and the exit code it ends with."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.broker import wait_until
from tests.daemon import Daemon

DEADLINE_SECONDS = 200  # the first run on a machine compiles the kernels
HEAVY = {
    "kafka",
    "matplotlib",
    "msgspec",
    "numba",
    "numpy",
    "pandas",
    "river",
    "scipy",
    "sklearn",
    "starlette",
    "uvicorn",
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("STREAMNB_")}


def streamnb(
    *arguments: str | Path, cwd: Path, stdin: str = "", environ: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streamnb", *map(str, arguments)],
        cwd=cwd,
        env={**ENVIRONMENT, "STREAMNB_HTTP__PORT": "0", **environ},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a configuration over files, and three events of which the last is to be answered."""
    (tmp_path / "streamnb.yaml").write_text(
        "app: shop\n"
        "transport: files\n"
        "files: {input: events.jsonl}\n"
        "output: {predictions: answers.jsonl, dead_letters: dead.jsonl}\n"
    )
    (tmp_path / "events.jsonl").write_text(EVENTS)
    return tmp_path


EVENTS = """\
{"id": 1, "features": {"amount": 10.0}, "label": "small"}
{"id": 2, "features": {"amount": 900.0}, "label": "large"}
{"id": 3, "features": {"amount": 11.0}}
"""


COMMANDS = ["run", "check", "demo", "inspect", "verify", "explain", "produce", "convert"]


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_answers_without_importing_what_the_commands_need(arguments: list[str]) -> None:
    program = (
        "import sys; from streamnb.cli import main; sys.argv[0] = 'streamnb'\n"
        "try: main()\n"
        "except SystemExit as ending: assert not ending.code\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert "Usage: streamnb" in done.stdout
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


def test_the_daemon_imports_nothing_that_it_does_not_use(folder: Path) -> None:
    program = (
        "import sys; from streamnb.cli import main; sys.argv[0] = 'streamnb'\n"
        "try: main()\n"
        "except SystemExit as ending: assert not ending.code\n"
        "print(*sys.modules)\n"
        "import scipy.linalg"
    )
    command = [sys.executable, "-c", program, "run", "streamnb.yaml"]
    environ = {**ENVIRONMENT, "STREAMNB_HTTP__PORT": "0"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    assert {"kafka", "matplotlib", "pandas", "scipy.linalg", "sklearn"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "give a configuration file, or --input FILE and --predictions FILE"),
        (
            ["run", "--input", "events.jsonl"],
            "give a configuration file, or --input FILE and --predictions FILE",
        ),
        (["run", "streamnb.yaml", "--follow"], "not both"),
        (["run", "--inptu", "events.jsonl"], "--inptu"),
        (["run", "streamnb.yaml", "--log-level", "loud"], "loud"),
        (["ran"], "ran"),
        (["run", "missing.yaml"], "missing.yaml"),
        (["check", "missing.yaml"], "missing.yaml"),
    ],
)
def test_a_wrong_command_line_ends_with_64_and_says_why(folder: Path, arguments: list[str], message: str) -> None:
    done = streamnb(*arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (64, "")
    assert message in done.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_unknown_key_is_named_with_its_line_and_the_nearest_key(folder: Path, command: str) -> None:
    with (folder / "streamnb.yaml").open("a") as file:
        file.write("snapshot: {every: 10s}\n")
    done = streamnb(command, "streamnb.yaml", cwd=folder)
    assert done.returncode == 64
    assert "streamnb.yaml:5: snapshot: unknown key" in done.stderr
    assert "snapshots" in done.stderr


def test_the_environment_overrides_the_file(folder: Path) -> None:
    done = streamnb("check", "streamnb.yaml", cwd=folder, environ={"STREAMNB_MODEL__ALPHA": "-1"})
    assert done.returncode == 64
    assert "STREAMNB_MODEL__ALPHA" in done.stderr


def no_input(folder: Path) -> None:
    (folder / "events.jsonl").unlink()


def a_folder_as_output(folder: Path) -> None:
    (folder / "answers.jsonl").mkdir()


def an_output_of_unknown_origin(folder: Path) -> None:
    (folder / "answers.jsonl").write_text("not ours\n")


def a_file_in_the_place_of_the_snapshots(folder: Path) -> None:
    (folder / "snapshots").write_text("")


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("spoil", "code", "message"),
    [
        (no_input, 65, "events.jsonl"),
        (a_folder_as_output, 65, "answers.jsonl"),
        (an_output_of_unknown_origin, 65, "answers.jsonl"),
        (a_file_in_the_place_of_the_snapshots, 74, "snapshots"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    folder: Path, command: str, spoil: Callable[[Path], None], code: int, message: str
) -> None:
    spoil(folder)
    done = streamnb(command, "streamnb.yaml", cwd=folder)
    assert done.returncode == code
    assert message in done.stdout + done.stderr


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_port_in_use_ends_with_74_and_names_it(folder: Path, command: str, taken_port: int) -> None:
    done = streamnb(command, "streamnb.yaml", cwd=folder, environ={"STREAMNB_HTTP__PORT": str(taken_port)})
    assert done.returncode == 74
    assert f"port in use: 127.0.0.1:{taken_port}" in " ".join((done.stdout + done.stderr).split())
    assert not (folder / "answers.jsonl").exists()


def test_a_file_is_learned_and_answered_to_its_end(folder: Path) -> None:
    done = streamnb("run", "--input", "events.jsonl", "--predictions", "answers.jsonl", cwd=folder)
    (answer,) = map(json.loads, (folder / "answers.jsonl").read_text().splitlines())
    assert done.returncode == 0
    assert (answer["id"], answer["label"], answer["model"]["events"]) == (3, "small", 2)
    assert (done.stdout, "state.stopped" in done.stderr) == ("", True)


def test_a_pipe_is_learned_and_answered_to_its_end(folder: Path) -> None:
    done = streamnb("run", "--input", "-", "--predictions", "-", cwd=folder, stdin=EVENTS)
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, answer["id"], answer["label"]) == (0, 3, "small")
    assert not (folder / "snapshots").exists()


def test_a_second_run_goes_on_where_the_first_ended(folder: Path) -> None:
    first = streamnb("run", "streamnb.yaml", cwd=folder)
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"id": 4, "features": {"amount": 890.0}}\n')
    second = streamnb("run", "streamnb.yaml", cwd=folder)
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert (first.returncode, second.returncode) == (0, 0)
    assert [(answer["id"], answer["label"]) for answer in answers] == [(3, "small"), (4, "large")]


def test_an_unusable_event_goes_to_the_dead_letters(folder: Path) -> None:
    (folder / "events.jsonl").write_text("{oops\n" + EVENTS)
    done = streamnb("run", "streamnb.yaml", cwd=folder)
    (letter,) = map(json.loads, (folder / "dead.jsonl").read_text().splitlines())
    assert (done.returncode, letter["headers"]["streamnb.error.reason"]) == (0, "not_json")


@pytest.fixture
def following(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run that has answered all there is and waits for more; NOTIFY_SOCKET is the folder's `supervisor`."""
    arguments = ["run", "--input", "events.jsonl", "--predictions", "answers.jsonl", "--follow"]
    with subprocess.Popen(
        [sys.executable, "-m", "streamnb", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, "STREAMNB_HTTP__PORT": "0", "NOTIFY_SOCKET": str(folder / "supervisor")},
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: process.poll() is not None or written(folder / "answers.jsonl"), DEADLINE_SECONDS)
        yield process
        process.kill()


def written(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_that_follows_its_input_with_0(
    following: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    following.send_signal(number)
    assert following.wait(DEADLINE_SECONDS) == 0


@pytest.fixture
def supervisor(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "supervisor"))
        listening.settimeout(DEADLINE_SECONDS)
        yield listening


def test_the_supervisor_is_told_when_the_run_is_ready_and_when_it_stops(
    supervisor: socket.socket, following: subprocess.Popen[bytes]
) -> None:
    said = supervisor.recv(100)
    while not said.startswith(b"READY=1\n"):
        said = supervisor.recv(100)
    following.send_signal(signal.SIGTERM)
    while not said.startswith(b"STOPPING=1\n"):
        said = supervisor.recv(100)
    assert following.wait(DEADLINE_SECONDS) == 0


def test_a_second_signal_ends_the_process_with_1_at_once() -> None:
    program = (
        "import os, signal, threading; from streamnb.cli.run import stop_at_signals\n"
        "stop = threading.Event(); stop_at_signals(stop)\n"
        "os.kill(os.getpid(), signal.SIGTERM); print(stop.is_set(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGINT); print('still here', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "True\n")


def test_a_signal_that_comes_where_the_interpreter_drops_exceptions_ends_a_start_all_the_same() -> None:
    program = (
        "import importlib, os, signal, threading, weakref\n"
        "run = importlib.import_module('streamnb.cli.run')  # streamnb.cli has the command under this name\n"
        "run.UNWINDING_SECONDS = 0.1\n"
        "run.stop_at_signals(threading.Event(), lambda: True)\n"
        "lost = type('Lost', (), {})()\n"
        "def callback(_):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    sum(1 for _ in range(1000))  # in which it is heard\n"
        "heard = weakref.ref(lost, callback)\n"
        "del lost\n"
        "threading.Event().wait(60)\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "SystemExit" in done.stderr  # it was dropped
    assert done.returncode == 0


def test_a_signal_ends_a_run_that_still_waits_for_a_broker_with_0(tmp_path: Path) -> None:
    (tmp_path / "away.yaml").write_text(
        "{app: away, kafka: {bootstrap_servers: '127.0.0.1:9'}, http: {port: 0},"
        " input: {labelled: [a]}, output: {predictions: b}}"
    )
    command = [sys.executable, "-m", "streamnb", "run", "away.yaml"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        while "web.serves" not in waiting.stderr.readline():
            assert waiting.poll() is None
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(10) == 0


def test_check_says_what_it_found_and_touches_no_output(folder: Path) -> None:
    done = streamnb("check", "streamnb.yaml", cwd=folder)
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if not line.startswith(" ")}
    assert done.returncode == 0
    assert list(rows) == ["configuration", "files", "snapshots", "events", "http"]
    assert "3 read, 2 labelled, 1 without a label, 0 would be dead" in rows["events"]
    assert "app shop" in rows["configuration"]
    assert "events.jsonl" in rows["files"]
    assert not (folder / "answers.jsonl").exists()


def test_check_says_that_the_newest_snapshot_is_of_another_model(folder: Path) -> None:
    assert streamnb("run", "streamnb.yaml", cwd=folder).returncode == 0
    same = streamnb("check", "streamnb.yaml", "--sample", "0", cwd=folder)
    other = streamnb("check", "streamnb.yaml", cwd=folder, environ={"STREAMNB_MODEL__DEFAULT": "ignore"})
    assert (same.returncode, other.returncode) == (0, 75)
    assert "it fits the model" in same.stdout
    assert "default='auto', now 'ignore'" in other.stdout


def test_check_reports_every_failure_and_ends_with_the_code_of_the_first(folder: Path, taken_port: int) -> None:
    no_input(folder)
    done = streamnb("check", "streamnb.yaml", cwd=folder, environ={"STREAMNB_HTTP__PORT": str(taken_port)})
    assert done.returncode == 65
    assert [line.split()[:2] for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        ["configuration", "ok"],
        ["files", "failed"],
        ["snapshots", "ok"],
        ["events", "failed"],
        ["http", "failed"],
    ]


def test_check_beside_the_running_daemon_says_so_and_does_not_fail(folder: Path) -> None:
    running = Daemon(
        folder, yaml.safe_load((folder / "streamnb.yaml").read_text().replace("l}", "l, follow: true}", 1))
    )
    try:
        running.start().ready()
        environ = {"STREAMNB_HTTP__PORT": str(running.port)}
        same = streamnb("check", "config.yaml", "--json", cwd=folder, environ=environ)
        named = environ | {"STREAMNB__APP": "other"}
        other = streamnb("check", "config.yaml", "--json", cwd=folder, environ=named)
    finally:
        running.close()
    verdicts, others = (
        {row["check"]: row["verdict"] for row in json.loads(done.stdout)["checks"]} for done in (same, other)
    )
    assert same.returncode == 0
    assert (verdicts["snapshots"], verdicts["http"]) == ("ok", "look")
    assert "runs already, and answers here" in same.stdout
    assert others["http"] == "failed"


def test_an_error_is_one_message_and_a_traceback_only_with_debug(folder: Path) -> None:
    no_input(folder)
    plain = streamnb("run", "streamnb.yaml", "--log-level", "error", cwd=folder)
    debugged = streamnb("run", "streamnb.yaml", "--log-level", "error", "--debug", cwd=folder)
    assert plain.stderr.startswith("streamnb: ")
    assert plain.stderr.count("\n") == 1
    assert "Traceback" in debugged.stderr
    assert debugged.stderr.endswith(plain.stderr)


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert streamnb("--version", cwd=tmp_path).stdout == f"streamnb {version('streamnb')}\n"


def test_the_shell_completes_commands_options_and_nothing_else() -> None:
    program = "import sys; from streamnb.cli import main; sys.argv[:] = ['streamnb']; main()"

    def completed(words: str, at: int) -> list[str]:
        environ = {**ENVIRONMENT, "_STREAMNB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("streamnb con", 1) == ["convert"]
    assert completed("streamnb topics create --min", 3) == ["--min-isr"]
    assert {"run", "check", "demo", "topics"} <= set(completed("streamnb ", 1))


@pytest.mark.parametrize("arguments", [["verify", "snapshots", "--input", "-"], ["explain", "snapshots", "-"]])
def test_ctrl_c_ends_a_command_that_waits_without_a_word(folder: Path, arguments: list[str]) -> None:
    assert streamnb("run", "streamnb.yaml", cwd=folder).returncode == 0
    program = (  # the command has begun to read once it asks for standard input
        "import os, signal, sys; from streamnb.cli import main; sys.argv[0] = 'streamnb'\n"
        "class Waiting:\n"
        "    def fileno(self): os.kill(os.getpid(), signal.SIGINT); return 0\n"
        "    buffer = property(lambda self: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.stdin = Waiting()\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
