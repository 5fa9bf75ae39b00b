"""The shape of the source: sizes of modules and functions, circles of imports, one class per name."""

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "questloop"
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}
MOST_LINES, MOST_FUNCTION_LINES = 400, 60
LARGE = {"fleet/runner.py"}
"""One file, since it is copied to machines that have nothing but Python."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = FUNCTIONS | ast.ClassDef
CLASSES = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
OWN = {node.name for node in CLASSES} | {"Protocol", "StrEnum", "BaseModel"}
"""Bases whose methods are documented here; others come from libraries, which document what they call."""
DOCUMENTED = {
    method.name
    for node in CLASSES
    for method in node.body
    if isinstance(method, FUNCTIONS) and ast.get_docstring(method)
} | {"name"}
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|npmjs\.(com|org)|conda\.anaconda"
)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_can_be_read_at_once(name):
    lines = MODULES[name].read_text("utf-8").count("\n")
    assert lines <= MOST_LINES or name in LARGE, f"{lines} lines"


@pytest.mark.parametrize("name", MODULES)
def test_a_function_fits_a_screen(name):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = node.end_lineno - node.lineno + 1
            apart = name.startswith("fleet/migrations/")
            assert size <= MOST_FUNCTION_LINES or apart, f"{node.name} has {size} lines"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_in_a_sentence_what_it_is_for(name):
    doc = ast.get_docstring(TREES[name])
    assert doc
    assert doc.splitlines()[0].endswith((".", ":", "?"))


@pytest.mark.parametrize("name", MODULES)
def test_a_public_name_says_what_it_is_for(name):
    """A method may leave that to the class or interface whose method it stands in for."""
    if name.startswith("fleet/migrations/"):
        return
    missing = []
    for node in TREES[name].body:
        if not isinstance(node, DEFINITIONS) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            missing.append(node.name)
        if isinstance(node, ast.ClassDef) and {base_of(base) for base in node.bases} <= OWN:
            public = [each for each in node.body if isinstance(each, FUNCTIONS) and each.name[0] != "_"]
            missing += [f"{node.name}.{each.name}" for each in public if each.name not in DOCUMENTED]
    assert missing == []


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: imports(name) for name in MODULES}
    circles = [part for part in connected(graph) if len(part) > 1]
    assert circles == []


def test_a_public_class_has_its_name_alone():
    found = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_tracked_files_name_no_host_of_a_package_registry():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix in {".png", ".webp", ".xz", ".gguf", ".gbc"}
            or path.resolve() == Path(__file__).resolve()
        ):
            continue
        found = REGISTRIES.search(path.read_text("utf-8")) if path.exists() else None
        assert found is None, f"{name}: {found[0]}: say `the package index`"


def base_of(node):
    """The name of a base class, without its module and its parameters."""
    return ast.unparse(node).split("[")[0].split(".")[-1]


def imports(name):
    """Modules that a module imports, wherever in it: also in functions, and for types alone."""
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("questloop"):
            base = node.module.removeprefix("questloop").lstrip(".").replace(".", "/")
            for alias in node.names:
                choices = (f"{base}/{alias.name}.py".lstrip("/"), f"{base}.py", f"{base}/__init__.py")
                found |= {next((choice for choice in choices if choice in MODULES), name)}
    return found - {name}


def connected(graph):
    """Strongly connected parts of a graph (Tarjan 1972)."""
    index, low, stack, parts = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            parts.append(sorted(part))

    for node in graph:
        if node not in index:
            visit(node)
    return parts


@pytest.mark.parametrize("name", sorted(set(MODULES) - {"errors.py", "llm/wire.py"}))
def test_messages_of_pydantic_are_told_by_message_of_alone(name):
    """So that none begins with the kind of its exception. `wire` reads those of other servers."""
    keys = (node.value for node in ast.walk(TREES[name]) if isinstance(node, ast.Constant))
    assert "msg" not in keys
