"""The Dockerfile's build steps, run in a clean folder: what is compiled while building is found by the container."""

import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEPS = re.findall(r"^RUN (.+)$", re.sub(r"\\\n\s*", "", (ROOT / "deploy" / "Dockerfile").read_text()), re.MULTILINE)


def step(begins: str, here: Path) -> list[str]:
    """The RUN that begins so, as a shell command on this folder instead of the image's root."""
    (found,) = [text for text in STEPS if text.startswith(begins)]
    return [
        "bash",
        "-euc",
        found.replace("/opt/streamnb", f"{here}/opt").replace("/var/cache/streamnb", f"{here}/cache"),
    ]


def test_kernels_compiled_while_building_are_found_in_the_container(tmp_path: Path) -> None:
    source, away = tmp_path / "src", tmp_path / "warm"
    source.mkdir()
    away.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "streamnb", source / "streamnb", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "deploy" / "warm_up.py", away)
    venv.create(tmp_path / "opt", with_pip=True)
    (packages,) = (tmp_path / "opt").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # saves downloading them again
    environ = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{tmp_path}/opt/bin{os.pathsep}{os.environ['PATH']}",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_CPU_NAME": "generic",
    }

    def run(command: list[str], folder: Path) -> str:
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = step("pip install", tmp_path)
    run([*pip[:-1], pip[-1].replace("pip install", "pip install --no-deps")], source)
    run(step("find", tmp_path), source)
    (warm,) = [text for text in STEPS if "warm_up.py" in text]
    assert warm == "mkdir /var/cache/streamnb && python warm_up.py"
    (tmp_path / "cache").mkdir()
    run(["python", "warm_up.py", "categorical"], away)
    assert "opt" in run(["python", "-c", "import streamnb; print(streamnb.__file__)"], away)
    kernels = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.nb?")}
    assert kernels
    for path in (tmp_path / "opt").rglob("*.py"):  # an image's layers keep whole seconds
        os.utime(path, (int(path.stat().st_mtime),) * 2)
    run(["python", "warm_up.py", "categorical"], away)
    assert {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.nb?")} == kernels
