"""Who may import whom, which file owns which library, and what no file may say."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "streamnb"
MODULES = sorted(PACKAGE.rglob("*.py"))
IMPLEMENTATIONS = {path.stem for path in (PACKAGE / "transport").iterdir()} - {"__init__", "__pycache__"}

# A part is a file or folder of streamnb; `transport` is its Protocols, `transport.*` their implementations.
MAY_IMPORT = {
    "": {"learners", "errors"},
    "errors": set(),
    "logs": set(),
    "config": {"errors"},
    "learners": {"errors"},
    "bench": {"learners", "config", "transport", "ledger", "processing"},
    "transport": {"errors"},
    "reports": {"errors", "transport"},
    "events": {"errors", "config", "transport"},
    "predictions": {"events", "transport"},
    "typed": {"errors", "config", "transport", "learners", "templates", "scanning", "slices"},
    "templates": {"learners", "scanning", "slices"},
    "scanning": {"learners"},
    "unpacking": {"learners", "slices"},
    "slices": set(),
    "scores": {"reports", "drift", "learners"},
    "drift": set(),
    "snapshots": {"errors", "config", "transport", "logs"},
    "transport.*": {"errors", "config", "transport", "logs", "slices", "unpacking"},
    "metrics": {"errors", "config", "transport", "reports", "logs", "metric_families"},
    "metric_families": {"errors", "transport", "reports"},
    "web": {"errors", "config", "transport", "reports", "logs"},
    # The engine, in the files it is split into.
    "starting": {"errors", "config", "transport", "snapshots"},
    "ledger": {"transport", "snapshots", "starting"},
    "processing": {
        *("errors", "config", "transport", "learners", "events", "predictions", "typed"),
        *("scores", "reports", "snapshots", "ledger"),
    },
    "saving": {"errors", "learners", "snapshots"},
    "top_features": {"logs", "learners", "reports"},
    "status": {"errors", "config", "transport", "reports", "ledger", "processing"},
    "verification": {"errors", "transport", "events", "learners"},
    "watchdog": {"errors", "logs"},
    "notify": set(),
    "engine": {
        *("errors", "logs", "config", "transport", "learners", "events", "scores", "snapshots", "reports"),
        *("starting", "ledger", "processing", "saving", "status", "top_features", "watchdog"),
    },
}
EVERYTHING = {"cli", "__main__"}

# Each of these libraries is spoken to in one place (modules that begin with this name).
OWNER = {
    "numba": "learners.kernels",
    "prometheus_client": "metrics",
    "kafka": "transport.kafka",
    "confluent_kafka": "transport.confluent",
    "starlette": "web",
    "uvicorn": "web",
    "yaml": "config",
    "pydantic": "config",
    "typer": "cli",
    "rich": "cli",
    "skops": "cli",
}
THEIR_OWN_CLIENTS = "streamnb.bench.pipeline"
"""The loops that a user would write, for comparison."""
ONLY_THE_STANDARD_LIBRARY = {"errors", "logs", "reports", "transport"}

# In pieces, so that this file does not hold them itself.
UNWANTED = [
    *("../" + "shared", "/" + "work/", "/" + "home/", "/" + "Users/"),
    *(
        "pypi" + ".org",
        "python" + "hosted",
        "deb" + ".debian",
        "npmjs" + ".",
        "maven" + ".org",
        "crates" + ".io",
    ),
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_what_its_part_may(path: Path) -> None:
    part = part_of(module_name(path))
    if part in EVERYTHING:
        return
    assert part in MAY_IMPORT, f"{part!r} is new: say in tests/test_layout.py what it may import"
    ours = {name for name in imports(path) if name.split(".")[0] == "streamnb"}
    used = {part_of(name) for name in ours - {"streamnb.__version__"}}
    assert used - {part} <= MAY_IMPORT[part]


@pytest.mark.parametrize(("library", "owner"), OWNER.items())
def test_a_library_is_imported_in_one_place_only(library: str, owner: str) -> None:
    elsewhere = [
        module_name(path)
        for path in MODULES
        if library in {name.split(".")[0] for name in imports(path)}
        if not module_name(path).startswith((f"streamnb.{owner}", THEIR_OWN_CLIENTS))
    ]
    assert elsewhere == []


@pytest.mark.parametrize("part", sorted(ONLY_THE_STANDARD_LIBRARY))
def test_the_leaves_need_nothing_but_the_standard_library(part: str) -> None:
    paths = [path for path in MODULES if part_of(module_name(path)) == part]
    used = {name.split(".")[0] for path in paths for name in imports(path)}
    assert paths
    assert used <= sys.stdlib_module_names | {"streamnb"}


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    names = {path.stem for path in [*PACKAGE.rglob("*"), *(ROOT / "tests").rglob("*")]}
    assert names.isdisjoint({"utils", "util", "helpers", "helper", "common", "misc"})


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {phrase}" for path, text in project_texts() for phrase in UNWANTED if phrase in text
    ]
    assert found == []


@cache
def imports(path: Path) -> frozenset[str]:
    """Full dotted names of everything that the file imports, wherever in the file it does so."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "streamnb")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "streamnb":
            yield f"streamnb.{node.attr}"  # what a file that says `import streamnb` takes of it


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def part_of(name: str) -> str:
    """The part that a dotted name belongs to; "" is the package's own `__init__.py`."""
    first, second = [*name.split("."), "", ""][1:3]
    return "transport.*" if first == "transport" and second in IMPLEMENTATIONS else first


def project_texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project; what tools and runs leave behind is no part of it."""
    folders = ["streamnb", "tests", "deploy", ".ci"]
    inside = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in [*inside, *(ROOT / name for name in ("README.md", "pyproject.toml", ".gitignore"))]:
        if "__pycache__" not in path.parts:
            try:
                yield path, path.read_text()
            except UnicodeDecodeError:
                continue


def test_no_name_in_gitignore_can_hide_a_package() -> None:
    """A name without a slash before it hides folders at any depth, from git and from the wheel."""
    names = (ROOT / ".gitignore").read_text().split()
    assert {name for name in names if name[0] not in "/."} == {"__pycache__/", "*.egg-info/"}
