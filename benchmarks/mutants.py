"""Whether the tests notice a mistake: `python -m benchmarks.mutants [--json] [--count 200] [--of cosim/physics/radio]`.

A mutant is the source with one small mistake: a comparison at its boundary, another operator, a constant that is
off, a condition turned round, a statement left out. Mutants are drawn evenly over files, then over the places in a
file. Each is made in a copy of the checkout and tried with the tests that import its module, then with all tests of
its package; it is killed by the first that fails or that runs out of time. What survives is listed with its place
and its change, to be read: some mutants change nothing that can be seen.
"""

from __future__ import annotations

import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import Table, parser, print_result

ROOT = Path(__file__).parents[1]
# Formulas, boundaries, protocols and kernels; what talks to people and starts processes is left out.
PLACES = ("adapters", "extensions", *(f"cosim/{name}" for name in (
    "autopilot", "bus", "contract", "engine", "physics", "results", "scenario", "sources", "talk/telemetry",
    "testbed/emulation", "testbed/live", "twin",
)))  # fmt: skip
LEFT_OUT = {"__pycache__", "tests", "__init__.py", "__main__.py"}
MARKS = "not slow and not chaos and not clients and not docker and not netns and not ns3 and not browser and not ray"
_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: the text between two offsets of a file, and what stands there instead."""

    file: str  # from the root of the checkout
    line: int
    start: int  # characters
    end: int
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests said of a mutant."""

    mutant: Mutant
    killed: bool
    by: str  # the command's first failure, "time", or ""


def mutants(path: Path, root: Path = ROOT) -> list[Mutant]:
    """All mistakes that can be made in a file, in the order of the source; annotations are left alone."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    data = text.encode()

    def offset(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    found = []
    for node in _places(tree):
        for other in _mistakes(node):
            start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)
            now = ast.unparse(other) if isinstance(node, ast.stmt) else f"({ast.unparse(other)})"
            found.append(Mutant(str(path.relative_to(root)), node.lineno, start, end, text[start:end], now))
    return found


def _places(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The expressions and statements that decide something, without annotations, decorators and messages."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        ignored: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign):
            ignored = [node.annotation]
        elif isinstance(node, ast.ClassDef):
            ignored = list(node.decorator_list)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)]
            ignored = [*node.decorator_list, node.returns, *arguments]
        elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom) or _for_types(node):
            ignored = [node]
        skipped.update(id(inner) for one in ignored if one is not None for inner in ast.walk(one))
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in skipped:
            yield node


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _mistakes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        other = copy.deepcopy(node)
        other.ops[0] = _COMPARE[type(node.ops[0])]()
        yield other
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATOR and not _text(node):
        yield ast.BinOp(node.left, _OPERATOR[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in (0, 1):
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.5)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        yield ast.Call(ast.Name("max" if node.func.id == "min" else "min"), node.args, node.keywords)
    elif isinstance(node, ast.AugAssign | ast.Continue | ast.Break):
        yield ast.Pass()


def _text(node: ast.BinOp) -> bool:
    """Whether an operator joins text, where another one is no mistake that anybody makes."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def draw(count: int, seed: int, places: Sequence[str] = PLACES, root: Path = ROOT) -> list[Mutant]:
    """`count` mutants, files in turn so that long ones do not crowd out the others."""
    rng = random.Random(seed)
    found = (
        path for place in places for path in ([root / place] if place.endswith(".py") else (root / place).rglob("*.py"))
    )
    files = sorted(path for path in found if not LEFT_OUT & set(path.relative_to(root).parts))
    chosen: list[Mutant] = []
    rng.shuffle(files)
    while files and len(chosen) < count:
        for path in list(files):
            left = [one for one in mutants(path, root) if one not in chosen]
            if not left:
                files.remove(path)
                continue
            chosen.append(rng.choice(left))
            if len(chosen) == count:
                break
    return chosen


def tests_of(file: str, root: Path) -> list[list[str]]:
    """Test files to try, nearest first: those that import the module, then the rest of its package's."""
    module = file.removesuffix(".py").replace("/", ".")
    module = module if module.startswith("cosim.") else f"cosim.{module}"
    package = module.rsplit(".", 1)[0]
    all_files = [path for top in ("tests/unit", "adapters", "extensions") for path in (root / top).rglob("test_*.py")]
    names = {path: path.read_text("utf-8") for path in sorted(all_files)}
    tail = module.rsplit(".", 1)[1]
    imported = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{tail}\b")
    near = [path for path, text in names.items() if imported.search(text)]
    parts = Path(file).parent.parts
    own = parts[0] in ("adapters", "extensions")
    beside = root.joinpath(*parts[:2], "tests") if own else root.joinpath("tests", "unit", *parts[1:])
    wide = [path for path in names if path.is_relative_to(beside) or package + "." in names[path]]
    groups = [near, [path for path in wide if path not in near]]
    return [[str(path.relative_to(root)) for path in group] for group in groups if group]


def judge(mutant: Mutant, root: Path, limit: float) -> Verdict:
    """Try a mutant in the copy of the checkout at `root`; the copy is as before afterwards."""
    path = root / mutant.file
    text = path.read_text("utf-8")
    path.write_text(text[: mutant.start] + mutant.now + text[mutant.end :], "utf-8")
    try:
        for group in tests_of(mutant.file, root):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MARKS, *group]
            environment = {**os.environ, "PYTHONPATH": str(root)}
            try:
                done = subprocess.run(
                    command, cwd=root, env=environment, capture_output=True, text=True, timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                return Verdict(mutant, True, "time")
            if done.returncode not in (0, 5):  # 5: no test was chosen
                lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return Verdict(mutant, True, lines[0][:120] if lines else f"pytest ended with {done.returncode}")
        return Verdict(mutant, False, "")
    finally:
        path.write_text(text, "utf-8")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--count", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--of", action="append", help="folders or files to draw from; default: all that compute")
    arguments.add_argument("--limit", type=float, default=300.0, help="s for the tests of one mutant")
    options = arguments.parse_args()
    drawn = draw(options.count, options.seed, options.of or PLACES)
    verdicts: list[Verdict] = []
    # Tests that fail at once may leave a compiling process that still writes its cache.
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", "runs", "__pycache__", ".*_cache", ".cache", "site",
            ".*.cosim.yaml", ".mypy_worker.*",  # of commands that run meanwhile
        )  # fmt: skip
        shutil.copytree(ROOT, root, ignore=ignored, symlinks=True)
        for number, mutant in enumerate(drawn, 1):
            verdict = judge(mutant, root, options.limit)
            verdicts.append(verdict)
            what = "killed" if verdict.killed else f"SURVIVED: {mutant.was!r} -> {mutant.now!r}"
            print(f"{number}/{len(drawn)} {mutant.file}:{mutant.line} {what}", file=sys.stderr, flush=True)
    survived = [asdict(one.mutant) for one in verdicts if not one.killed]
    table = Table("Mutants that survived", ["place", "was", "is"])
    for one in survived:
        table.add([f"{one['file']}:{one['line']}", one["was"][:60], one["now"][:60]])
    data = {"drawn": len(drawn), "killed": len(drawn) - len(survived), "survived": survived}
    print_result("mutants", data, [table], as_json=options.json)


if __name__ == "__main__":
    main()
