"""The house's rules: who imports whom, one owner for each kernel file, kernel files named after their owners."""

from __future__ import annotations

import ast
import collections
import functools
import pathlib
import re

from clquant.runtime.program.variants import FORMS

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE, KERNELS = ROOT / "clquant", ROOT / "cl"

# A room may import the rooms above it and itself; rooms of one row do not import each other.
ROWS = (
    ("executors",),
    ("runtime",),
    ("params",),
    ("images",),
    ("flow",),
    ("color", "histogram", "estimator", "training"),
    ("quality",),
    ("mapping",),
    ("dithering",),
    ("palette",),
    ("kmeans", "neuquant", "halftone", "vq", "quadtree", "spatial", "vectors"),
    ("one_call", "pillow", "video"),
    ("targets",),
    ("panel", "tiles"),
    ("__init__",),
    ("dask", "check"),
    ("cli",),
    ("start",),
    ("__main__",),
)
# What a call looks up by name in a room above its own: the executor of workers, and the dithers that are engines.
UPWARD = (
    "__init__.py: __init__ imports dask",
    "dithering/registry.py: dithering imports halftone",
)
RANK = {room: rank for rank, rooms in enumerate(ROWS) for room in rooms}
FOREIGN_FILES = ("stdint.h", "lvgl.h", "lvgl/lvgl.h", "header.h")  # in the C sources that are written


def modules() -> list[pathlib.Path]:
    return sorted(PACKAGE.rglob("*.py"))


@functools.cache
def tree_of(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def is_module(text: str) -> bool:
    """Whether a text is the dotted name of a module of the package."""
    if not re.fullmatch(r"clquant(\.[a-z]\w*)+", text):
        return False
    place = ROOT.joinpath(*text.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


@functools.cache
def imported(path: pathlib.Path) -> list[str]:
    """Dotted names of all modules that a file imports, at whatever depth of the code, or names in a string."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_module(node.value):
            found.append(node.value)
        elif isinstance(node, ast.Call) and [getattr(one, "value", None) for one in node.args] == ["clquant"]:
            found += ["clquant"] * ast.unparse(node.func).endswith("import_module")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "clquant":
            found += [f"clquant.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.append(node.module or "")
    return found


def test_rooms_import_only_what_is_below_them() -> None:
    wrong = []
    for path in modules():
        room = room_of(path)
        for name in imported(path):
            first, _, rest = name.partition(".")
            if first != "clquant":
                continue
            other = rest.split(".")[0]
            other = other if other in RANK else "__init__"
            if other != room and RANK[other] >= RANK[room]:
                wrong.append(f"{path.relative_to(PACKAGE).as_posix()}: {room} imports {other}")
    assert sorted(wrong) == sorted(UPWARD)


def test_targets_are_imported_by_the_command_and_by_public_names_alone() -> None:
    rooms = {room_of(path) for path in modules() if any(name.startswith("clquant.targets") for name in imported(path))}
    assert rooms == {"targets", "cli", "__init__", "panel", "tiles"}


def test_only_the_runtime_imports_pyopencl() -> None:
    outside = [path for path in modules() if room_of(path) != "runtime"]
    assert [str(path) for path in outside if any(n.split(".")[0] == "pyopencl" for n in imported(path))] == []


def owners() -> dict[str, set[str]]:
    """Modules, as paths without suffix, that name each kernel file."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for path in modules():
        for file in re.findall(r'"([\w/]+\.cl)"', path.read_text(encoding="utf-8")):
            found[file].add(path.relative_to(PACKAGE).with_suffix("").as_posix())
    return found


def test_each_kernel_file_is_named_in_one_module_and_after_it() -> None:
    named, files = owners(), {path.relative_to(KERNELS).as_posix() for path in KERNELS.rglob("*.cl")}
    assert set(named) <= files
    wrong = set()
    for file in files:
        stem = file.removesuffix(".cl")
        if len(named.get(file, ())) != 1:
            wrong.add(file)
            continue
        (owner,) = named[file]
        if stem != owner and not stem.startswith(f"{owner}_"):
            wrong.add(file)
    assert not wrong


def test_headers_lie_in_a_room_that_uses_them_or_in_common() -> None:
    for path in sorted([*KERNELS.rglob("*.cl"), *KERNELS.rglob("*.h")]):
        room = path.relative_to(KERNELS).parts[0]
        for name in re.findall(
            r'^[ \t]*#[ \t]*include[ \t]+"([\w./]+)"', path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert (KERNELS / name).is_file(), f"{path}: {name}"
            assert "common" in name or name.split("/")[0] == room or RANK[name.split("/")[0]] < RANK[room], (path, name)


def test_kernel_files_that_comments_name_exist() -> None:
    """By their path from `cl/`, or by their name alone in their own folder."""
    missing = []
    for path in sorted([*KERNELS.rglob("*.cl"), *KERNELS.rglob("*.h"), *modules()]):
        for name in re.findall(r"(?<![\w/.$-])((?:cl/)?[\w/]+\.(?:cl|h))\b(?!\()", path.read_text(encoding="utf-8")):
            there = [KERNELS / name.removeprefix("cl/"), path.parent / name]
            room = KERNELS / path.relative_to(PACKAGE).parent / name if path.suffix == ".py" else path.parent / name
            if not any(file.is_file() for file in (*there, room)) and name not in FOREIGN_FILES:
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert not missing


def test_references_import_nothing_that_they_check() -> None:
    """From the package a reference takes errors alone."""
    found = []
    for path in sorted((ROOT / "tests" / "reference").glob("*.py")):
        for node in ast.walk(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [f"{path.name}: {name}" for name in names if name.split(".")[0] == "clquant"]
    assert [one for one in found if not one.endswith("Error")] == []


# Engines hold arithmetic and launches; where things lie is known to these rooms alone.
ROOMS_OF_DATA = ("flow", "images", "dask", "cli", "runtime")
WORDS_OF_DATA = re.compile(r"\b(lazy|is_lazy|dask|is_dask|executor|on_collections|is_read_in_parts)\b")


def code_of(path: pathlib.Path) -> str:
    """The code of a module without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def test_engines_do_not_know_where_data_lies() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in modules()
        if room_of(path) not in ROOMS_OF_DATA
        for line in code_of(path).splitlines()
        if WORDS_OF_DATA.search(line)
    ]
    assert found == ["__init__.py: from clquant.dask.executor import EXECUTOR"]


def test_one_function_cuts_and_one_class_is_what_is_cut() -> None:
    names: collections.Counter[str] = collections.Counter()
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names[node.name] += 1
    assert {name: names[name] for name in ("portions", "Portion", "Part", "Piece")} == {
        "portions": 1, "Portion": 1, "Part": 0, "Piece": 0
    }  # fmt: skip


def test_names_of_forms_are_those_of_the_tables() -> None:
    found = {
        node.args[0].value
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Variant"
        if isinstance(node.args[0], ast.Constant)
    }
    assert sorted(found) == sorted(FORMS)


# Modules that import each other, imports for type checking counted: at most four circles.
CIRCLES = (
    {"kmeans.lloyd", "kmeans.lloyd_grid"},  # a form that keeps the centers of the step it serves
    {"palette.engine", "palette.target_quality"},  # a search by refits of the engine whose verb it is
)


def is_face(path: pathlib.Path) -> bool:
    """Whether a file only hands on the names of its room's modules."""
    tree = tree_of(path)
    return path.name == "__init__.py" and not any(isinstance(n, ast.FunctionDef | ast.ClassDef) for n in tree.body)


def arrows() -> dict[str, set[str]]:
    """Modules by the modules that they import, where a name comes from through the faces of rooms."""
    files = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in modules()}
    taken: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in files}
    for name, path in files.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom):
                taken[name] |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
            elif isinstance(node, ast.Import):
                taken[name] |= {one.name: (one.name, "") for one in node.names}
    faces = {name for name, path in files.items() if is_face(path)}

    def home_of(module: str, name: str) -> str:
        if f"{module}.{name}" in files:
            return f"{module}.{name}"
        return home_of(*taken[module][name]) if module in faces and name in taken[module] else module

    return {
        name: {home_of(*one) for one in taken[name].values()} & (set(files) - faces - {name})
        for name in set(files) - faces
    }


def test_circles_of_modules_are_few() -> None:
    graph = arrows()
    reached = {name: set(others) for name, others in graph.items()}
    for through in graph:
        for others in reached.values():
            if through in others:
                others |= reached[through]
    circles = {frozenset(o for o in reached if o in reached[name] and name in reached[o]) for name in reached}
    found = [{name.removeprefix("clquant.") for name in circle} for circle in circles if circle]
    assert sorted(found, key=sorted) == sorted(CIRCLES, key=sorted)
    assert len(CIRCLES) <= 4
