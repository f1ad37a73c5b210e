"""Machine code follows its sources, wherever it is kept and whoever else compiles at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cosim.compiled import compiling
from tests.forked import Forks

ROOT = Path(__file__).resolve().parents[3]
CALLER = """\
from cosim.compiled.compiling import entry
from toy.callee import double

@entry()
def answer(x):
    return double(x) + 1
"""
CALLEE = """\
from cosim.compiled.compiling import part

@part
def double(x):
    return 2 * x
"""
ASK = (
    "from cosim.compiled.compiling import ready; from toy.caller import answer; "
    "print(ready(answer), answer(20), ready(answer))"
)


@pytest.fixture
def toy(tmp_path):
    """A folder with a small package whose entry point calls a function of another file."""
    package = tmp_path / "toy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    (package / "callee.py").write_text(CALLEE)
    return tmp_path


# Our modules read where the cache lies when they are imported, after the fork; numba has read its own variables.
NUMBA = Forks("numba", "numba.core.compiler", "numba.np.arraymath", early=("PYTHON", "NUMBA_", "OPENBLAS_", "LD_"))
CHOSEN = ("NUMBA_", "XDG_", "COSIM_CACHE")


def environment(**chosen):
    return {key: value for key, value in os.environ.items() if not key.startswith(CHOSEN)} | chosen


def ask(folder, code=ASK, **chosen):
    """What the code prints in a process of its own that imports from `folder` first."""
    (folder / "asked.py").write_text("import sys\nsys.dont_write_bytecode = True\n" + code)
    done = NUMBA.run("asked", cwd=folder, env=environment(**chosen))
    return said(done)


def ask_anew(folder, code, **chosen):
    """The same in an interpreter that has not loaded numba."""
    env = environment(**chosen)
    return said(subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True))


def said(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_change_in_another_file_of_the_package_is_noticed(toy):
    assert ask(toy) == "False 41 True"
    assert ask(toy) == "True 41 True"
    (toy / "toy/callee.py").write_text(CALLEE.replace("2 * x", "3 * x"))
    assert ask(toy) == "False 61 True"


DEFERRED = """\
import sys
from cosim.compiled.compiling import defer, ready
defer()
from toy.outer import answer, more
LOADED = "cosim.compiled.machine_code"
print(LOADED in sys.modules, more(1), LOADED in sys.modules, ready(answer), answer(20))
"""
OUTER = """\
from cosim.compiled.compiling import entry
from toy.caller import answer
from toy.callee import double

@entry()
def more(x):
    return answer(x) + double(x)
"""


def test_numba_is_loaded_when_a_deferred_entry_point_is_called(toy):
    (toy / "toy/outer.py").write_text(OUTER)
    assert ask_anew(toy, DEFERRED, COSIM_CACHE=str(toy / "cache")) == "False 5 True True 41"
    assert len(list((toy / "cache").rglob("*.nbc"))) == 2
    assert ask_anew(toy, DEFERRED, NUMBA_DISABLE_JIT="1") == "False 5 True True 41"


def test_numba_takes_scipy_and_yaml_from_nobody(toy):
    pytest.importorskip("scipy")
    pytest.importorskip("yaml")
    code = "from cosim.compiled import compiling; from toy.callee import double; import scipy, yaml; print(double(2))"
    assert ask_anew(toy, code) == "4"


ANOTHER = """\
import numba
numba.__version__ = "0.99.1"
try:
    from toy.callee import double
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_numba_that_was_not_tested_is_refused(toy):
    refusal = ask(toy, ANOTHER)
    assert refusal.startswith("SetupError numba 0.99.1 is installed")
    assert refusal.endswith(f"pip install '{compiling.NUMBA}'")


def test_a_package_that_cannot_be_written_is_cached_for_the_user(toy):
    (toy / "toy/__pycache__").write_text("no folder, so nobody can write into it, not even root")
    home = {"XDG_CACHE_HOME": str(toy / "user")}
    assert ask(toy, **home) == "False 41 True"
    assert ask(toy, **home) == "True 41 True"
    assert list((toy / "user").rglob("*.nbc"))
    (toy / "toy/callee.py").write_text(CALLEE.replace("2 * x", "3 * x"))
    assert ask(toy, **home) == "False 61 True"


def test_the_cache_lies_where_it_is_wanted(toy):
    wanted = {"COSIM_CACHE": str(toy / "cache")}
    assert ask(toy, **wanted) == "False 41 True"
    assert ask(toy, **wanted) == "True 41 True"
    assert list((toy / "cache").rglob("*.nbc"))
    assert not list((toy / "toy").rglob("*.nbc"))


def test_a_cache_that_can_only_be_read_is_used_and_left_as_it_is(toy):
    """As in a container whose file system is read-only; access(2) reports it to root as well, unlike after chmod."""
    wanted = {"COSIM_CACHE": str(toy / "cache")}
    assert ask(toy, **wanted) == "False 41 True"
    kept = {file: file.read_bytes() for file in (toy / "cache").rglob("*.nb?")}
    asked = (
        "import os; real = os.access\n"
        "os.access = lambda path, *more: str(path) != os.environ['COSIM_CACHE'] and real(path, *more)\n" + ASK
    )
    assert ask(toy, asked, **wanted) == "True 41 True"
    (toy / "toy/callee.py").write_text(CALLEE.replace("2 * x", "3 * x"))
    assert ask(toy, asked, **wanted) == "False 61 True"
    assert {file: file.read_bytes() for file in (toy / "cache").rglob("*.nb?")} == kept


def test_only_what_an_edit_touches_is_compiled_anew(toy):
    (toy / "toy/apart.py").write_text(CALLEE)
    assert ask(toy) == "False 41 True"
    (toy / "toy/apart.py").write_text(CALLEE + "# a remark\n")
    (toy / "toy/__init__.py").write_text("# and another\n")
    assert ask(toy) == "True 41 True"
    (toy / "toy/callee.py").write_text("from toy import apart\n" + CALLEE)
    assert ask(toy) == "False 41 True"
    (toy / "toy/apart.py").write_text(CALLEE)
    assert ask(toy) == "False 41 True"


@pytest.mark.slow
def test_several_processes_may_compile_at_the_same_time(toy):
    settings = environment(PYTHONPATH=f"{toy}{os.pathsep}{ROOT}", PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-c", f"{ASK}; print(sum(answer.stats.cache_misses.values()))"]
    started = [subprocess.Popen(command, cwd=toy, env=settings, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert {words.split()[1] for words in said} == {"41"}
    assert sorted(words.split()[3] for words in said) == ["0", "0", "1"]  # the others wait for the one that compiles
    assert not list(toy.rglob("*.lock"))
    assert ask(toy) == "True 41 True"


def test_without_the_compiler_there_is_nothing_to_wait_for(toy):
    assert ask(toy, NUMBA_DISABLE_JIT="1") == "True 41 True"
    assert not list(toy.rglob("*.nbc"))


BEYOND = """\
import numpy as np
from cosim.compiled.compiling import address_of, array_at, entry
from cosim.compiled.rowtypes import rows_of

PAIR = np.dtype([("at", "f8"), ("size", "i4"), ("value", "f4")])
pair = rows_of(PAIR)
reals = array_at(np.dtype("f8"))

@entry()
def last(address, i):
    return pair(address, i).size

@entry()
def total(address, count):
    return reals(address, count).sum()

@entry()
def first(pairs):
    return pairs[0].size + pairs[1].at

pairs, values = np.zeros(3, PAIR), np.arange(4.0)
pairs["size"] = 5, 6, 7
place, numbers = address_of(pairs), address_of(values)
print(last(place, 0), last(place, 2), total(numbers, 4), first(pairs))
for call, place, number in (last, place, 3), (last, place, -1), (last, place + 1, 2), (total, numbers, 5):
    try:
        call(place, number)
        print("taken")
    except IndexError:
        print("refused")
"""


def test_plain_python_refuses_a_row_outside_its_array_and_reads_fields_as_compiled_code_does(toy):
    assert ask(toy, BEYOND, NUMBA_DISABLE_JIT="1").split() == ["5", "7", "6.0", "5.0", *["refused"] * 4]


SLICE = """\
import numpy as np
from cosim.compiled.compiling import entry

@entry()
def assign(array, values):
    array[:] = values

try:
    assign(np.zeros(3), np.zeros(2))
except ValueError as error:
    print(error)
"""


def test_a_slice_takes_no_array_of_another_shape_and_compiles_no_text_about_it(toy):
    assert ask(toy, SLICE) == "cannot assign slice from input of different size"


NAMES = """\
from cosim.engine.continuum import kernel
from cosim.physics.radio import cells
print(kernel.act.__qualname__, cells.receive.__qualname__)
"""


def test_what_the_machine_code_of_the_engine_and_the_radio_depends_on(tmp_path):
    shutil.copytree(ROOT / "cosim", tmp_path / "cosim", ignore=shutil.ignore_patterns("precompiled", "extensions"))
    before = ask(tmp_path, NAMES).split()
    for edited, changes in {
        "physics/radio/fast.py": (False, True),
        "physics/radio/wifi_pairs.py": (False, False),
        "engine/continuum/flow.py": (True, False),
        "engine/continuum/engine.py": (False, False),
        "compiled/compiling.py": (True, True),
        "compiled/machine_code.py": (True, True),
    }.items():
        with (tmp_path / "cosim" / edited).open("a") as file:
            file.write("\n# a remark\n")
        after = ask(tmp_path, NAMES).split()
        assert tuple(a != b for a, b in zip(after, before, strict=True)) == changes, edited
        before = after


UNCOMPILED = """\
from pathlib import Path
from cosim.compiled import compiling
compiling.PRECOMPILED = Path("none")
from cosim.results.compiled import uncompiled
print(*uncompiled(["replay", "radio", "continuum"]))
"""


def test_adapters_say_that_they_will_compile(tmp_path):
    assert ask(tmp_path, UNCOMPILED, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == "continuum radio"
    assert ask(tmp_path, UNCOMPILED, NUMBA_DISABLE_JIT="1") == ""


ADAPTER = """\
from cosim.contract.adapter import AdapterConfig, AdapterKind, Ports
from cosim.contract.frame import Frame
from cosim.compiled.compiling import ready

class Config(AdapterConfig):
    pass

class Toy:
    def __init__(self, config):
        pass
    def start(self, context):
        pass
    def step(self, time, inputs):
        from toy.caller import answer
        answer(20)
        return []
    def finish(self):
        return {}
    def close(self):
        pass

def compiled():
    from toy.caller import answer
    return ready(answer)

ADAPTER = AdapterKind("toy", "", "toy.adapter:Config", "toy.adapter:Toy", Ports(), compiled="toy.adapter:compiled")
"""
COMPILE = """\
from cosim.results.compiled import compile_first, uncompiled
names = ["toy.adapter:ADAPTER"]
print(*uncompiled(names), compile_first(names, str) > 0.0, *uncompiled(names), compile_first(names, str))
"""


def test_code_is_ready_before_a_run_begins(toy):
    (toy / "toy/adapter.py").write_text(ADAPTER)
    home = {"COSIM_CACHE": str(toy / "cache")}
    assert ask(toy, COMPILE, **home) == "toy True 0.0"
    assert ask(toy, COMPILE, **home) == "False 0.0"


PHYSICS = """\
import numpy as np
from cosim.engine.continuum import WorkloadStream
from cosim.physics.radio import cells, shadowing
from tests.unit.engine.continuum.worlds import attach, exponential, field

engine = field(WorkloadStream(rate=5.0, work=exponential(2e8), input=exponential(1e4)), devices=3)
for k in range(3):
    attach(engine, 3 + k, 0, rate=1e6)
engine.advance(4.0)
print(*engine.drain()["ended"], engine.ledger().energy.sum())
n, m = 20, 3
rows = np.arange(n, dtype=np.int32)
keys = shadowing.device_keys(np.uint64(7), rows, np.zeros(n, np.int32))
place = np.column_stack([np.linspace(0, 900, n), np.linspace(50, 300, n), np.full(n, 1.5)])
for law in (cells.CLOSE_IN, cells.UMI):
    shadow, sight, power = np.full((n, m), np.nan), np.full((n, m), np.nan), np.zeros((n, m))
    for draw, moved in ((1, np.inf), (2, 3.0)):
        cells.receive(
            cells.Receivers(rows, place, np.zeros(n), np.full(n, moved), keys, np.full(n, draw, np.uint64)),
            cells.Transmitters(
                np.array([[0.0, 0.0, 10.0], [500.0, 0.0, 10.0], [0.0, 700.0, 20.0]]), np.full(m, 40.0),
                np.full(m, 3.5e9),
            ),
            law, cells.CloseIn(3.0, 8.0, 20.0), 800.0, cells.PairRows(shadow, sight, power),
        )
    print(*np.log(power[power > 0.0]))
"""


@pytest.mark.slow
def test_the_compiler_changes_no_result(tmp_path):
    plain, compiled = ([float(word) for word in ask(tmp_path, PHYSICS, **how).split()] for how in (
        {"NUMBA_DISABLE_JIT": "1"}, {key: os.environ[key] for key in os.environ.keys() & {"NUMBA_CACHE_DIR"}},
    ))  # fmt: skip
    assert len(plain) > 100
    assert plain == pytest.approx(compiled, rel=1e-12)


BROUGHT = """\
from pathlib import Path
from cosim.compiled import compiling
compiling.PRECOMPILED = Path("brought")
from cosim.compiled.compiling import ready
from toy.caller import answer
print(ready(answer), answer(20), sum(answer.stats.cache_hits.values()))
"""


def test_machine_code_that_an_installation_brings_is_used_while_it_holds(toy):
    (toy / "brought").mkdir()
    assert ask(toy, BROUGHT, COSIM_CACHE=str(toy / "cache")) == "False 41 0"
    for file in (toy / "cache").rglob("*.nb?"):
        file.rename(toy / "brought" / file.name)
    assert ask(toy, BROUGHT, COSIM_CACHE=str(toy / "other")) == "True 41 1"
    assert not list((toy / "other").rglob("*.nbc"))
    (toy / "toy/caller.py").touch()  # its text counts, not its age
    assert ask(toy, BROUGHT, COSIM_CACHE=str(toy / "other")) == "True 41 1"
    (toy / "toy/callee.py").write_text(CALLEE.replace("2 * x", "3 * x"))
    assert ask(toy, BROUGHT, COSIM_CACHE=str(toy / "other")) == "False 61 0"
    assert list((toy / "other").rglob("*.nbc"))


def test_another_processor_is_compiled_for_apart(toy):
    (toy / "brought").mkdir()
    cache = {"COSIM_CACHE": str(toy / "cache")}
    assert ask(toy, BROUGHT, **cache) == "False 41 0"
    for file in (toy / "cache").rglob("*.nb?"):
        file.rename(toy / "brought" / file.name)
    assert ask(toy, BROUGHT, **cache, NUMBA_CPU_NAME="generic") == "False 41 0"
    # numba that has begun with a processor of its own choice stays with it
    begun = "import numba; numba.njit(lambda x: x)(1)\n" + BROUGHT
    level = ask(toy, "from cosim.compiled import machine_code; print(machine_code._config.CPU_NAME)")
    assert ask(toy, begun, **cache) == ("False 41 0" if level == "x86-64-v3" else "True 41 1")


@pytest.mark.parametrize("features", ["{**have, 'fma': False}", "{}"], ids=["an older one", "another family"])
def test_a_processor_without_the_level_is_compiled_for_itself(toy, features):
    code = (
        "import llvmlite.binding as b; have = b.get_host_cpu_features(); b.get_host_cpu_features = lambda: "
        f"{features}; from cosim.compiled import machine_code; print(machine_code._config.CPU_NAME)"
    )
    assert ask_anew(toy, code) == "None"


def test_code_is_kept_for_once_where_no_folder_can_be_written(tmp_path, monkeypatch):
    from cosim.compiled import machine_code

    open_to_all = {tmp_path}
    monkeypatch.setattr(machine_code.os, "access", lambda path, mode: path in open_to_all)
    assert machine_code._keeps({}, tmp_path)  # ~/.cache can be made
    assert machine_code._keeps({"XDG_CACHE_HOME": str(tmp_path / "a" / "b")}, tmp_path / "nowhere")
    open_to_all.clear()
    assert not machine_code._keeps({}, tmp_path)
    open_to_all.add(machine_code._HERE.parent)
    assert machine_code._keeps({}, tmp_path)


def test_code_that_is_kept_for_once_is_taken_away_by_its_process_only(tmp_path):
    script = (
        "import os, sys; from cosim.compiled import machine_code as m; m._keep_for_once(os.environ); "
        "print(os.environ['NUMBA_CACHE_DIR']); assert m._config.CACHE_DIR == os.environ['NUMBA_CACHE_DIR']; "
        "sys.stdout.flush(); child = os.fork(); child or sys.exit(); os.waitpid(child, 0); "
        "assert os.path.isdir(os.environ['NUMBA_CACHE_DIR'])"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())
