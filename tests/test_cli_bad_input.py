"""What is wrong with what a command is given is said in one message: no traceback, no internal error."""

import gzip
from pathlib import Path

import pytest

from tests.saved_models import PASSENGERS, call, learned, lines_of

CONFIGS = {
    "missing.yaml": None,
    "binary.yaml": bytes(range(256)),
    "utf16.yaml": "app: x".encode("utf-16"),
    "empty.yaml": b"",
    "list.yaml": b"- a\n",
    "cut.yaml": b"app: [x\n",
    "deep.yaml": b"[" * 5000,
    "itself.yaml": b"a: &a [*a]\n",
    "code.yaml": b"app: !!python/object:os.system x\n",
    "types.yaml": b"app: {a: 1}\nkafka: 3\ninput: {labelled: {a: b}}\noutput: []\n",
    "servers.yaml": b"{app: x, kafka: {bootstrap_servers: '::::'}, input: {labelled: [a]}, output: {predictions: b}}",
    "cut.snapshot": b"\x89SNB\r\n\x1a\n" + bytes(100),
    "text.snapshot": b"text",
}
READERS = [["run"], ["check"], ["inspect"], ["verify"], ["topics", "create"], ["explain"], ["convert"]]
REST = {"explain": ["{}"], "convert": ["to.skops"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    for name, content in CONFIGS.items():
        if content is not None:
            (made / name).write_bytes(content)
    (made / "folder").mkdir()
    (made / "loop").symlink_to(made / "loop")
    (made / "table.csv").write_text("a,b\n1,2\n")
    (made / "cut.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 9999)[:90])
    return made


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_configuration_or_snapshot_that_is_none_is_named(folder: Path, command: list[str]) -> None:
    for name in [*CONFIGS, "folder", "loop"]:
        done = call(*command, folder / name, *REST.get(command[0], []))
        assert (done.exit_code in (64, 65), done.stdout) == (True, ""), (name, done.exit_code, done.output)
        assert done.stderr.startswith("streamnb: "), (name, done.stderr)
        assert name in done.stderr
        assert "internal" not in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["verify", "ok", "--input", "folder"], 65, "folder: is a folder"),
        (["verify", "ok", "--input", "missing"], 65, "no such file"),
        (["inspect", "ok", "--plot", "nowhere/x.png"], 74, "nowhere/x.png.tmp: no such file or directory"),
        (["inspect", "ok", "--plot", "x.jpg"], 64, ".png, .svg, .pdf"),
        (["explain", "ok", "\udcff"], 64, "not_utf8"),
        (["run", "--input", "table.csv", "--predictions", "nowhere/x"], 65, "there is no folder"),
        (["demo", "--folder", "table.csv"], 65, "is not a folder"),
        (["demo", "--kafka", "::::"], 64, "allowed is HOST:PORT"),
        (["demo", "--keep"], 64, "--keep is for --kafka"),
        (["produce", "cut.csv.gz", "--topic", "t", "--label", "a", "--bootstrap-servers", "::::"], 64, "HOST:PORT"),
    ],
)
def test_what_cannot_be_used_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    if not (folder / "ok").exists():
        config = learned(folder / "history", lines_of(PASSENGERS), "{}")
        (folder / "ok").symlink_to(config)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STREAMNB_HTTP__PORT", "0")
    done = call(*arguments)
    assert (done.exit_code, message in done.stderr) == (code, True), done.output
    assert "Traceback" not in done.output
    assert not list(folder.rglob("*.tmp"))
