"""The contract checker finds each fault that it promises to find, and nothing in a good adapter."""

import importlib
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from cosim.contract.errors import SetupError
from cosim.contract.extras import how_to_install
from cosim.contract.frame import fault
from cosim.contract.signals import CATALOGUE
from cosim.testing import ContractError, check_adapter, find_faults, main
from cosim.testing.synthetic import Source, fleet_table, small_scene

GOOD = {
    "__init__.py": """
from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.signals import Column, Signal

WIND = Signal("wind", "wind at each station", (
    Column("speed", "float64", "m/s", "mean wind"),
    Column("gusts", "int32", "1", "gusts so far", "counter"),
))

ADAPTER = AdapterKind(
    name="PACKAGE", summary="wind", config="PACKAGE.config:WindConfig", factory="PACKAGE.adapter:Wind",
    ports=Ports(reads=(Read("mobility"), Read("link", required=False)), writes=("wind",)),
    signals=(WIND,), example="PACKAGE: {mean: 3 m/s}",
)
""",
    "config.py": """
from pydantic import Field
from cosim.contract import units
from cosim.contract.adapter import AdapterConfig

class WindConfig(AdapterConfig):
    mean: units.Speed = Field(3.0, description="mean wind speed")
""",
    "adapter.py": """
import numpy as np
from cosim.contract.frame import Frame, SlotTable

class Wind:
    def __init__(self, config):
        self.config = config
        self.buffers = []

    def start(self, context):
        self.rng = context.rng()
        self.name = context.name
        self.n = len(context.scene.nodes)
        self.buffers = [(np.empty(self.n), np.zeros(self.n, np.int32)) for _ in range(2)]
        self.gusts = 0

    def step(self, time, inputs):
        speed, gusts = self.buffers[0]
        self.buffers.reverse()
        speed[:] = self.config.mean + self.rng.normal(size=self.n)
        gusts[:] = self.gusts
        self.gusts += 1
        moving = inputs.one("mobility")
        return [Frame("wind", time, np.arange(self.n, dtype=np.int32), {"speed": speed, "gusts": gusts})]

    def finish(self):
        return {"gusts": self.gusts}

    def close(self):
        self.buffers = []
""",
    "README.md": "# Wind\n\n```yaml\nPACKAGE: {mean: 3 m/s}\n```\n",
}
# the same adapter, as the owner of a fleet with one member that changes at step 3
FLEET = [
    ("__init__.py", 'name="PACKAGE"', 'fleet=True, name="PACKAGE"'),
    ("__init__.py", '(Read("mobility"), Read("link", required=False)), writes=("wind",)', '(), writes=("mobility",)'),
    ("adapter.py", '"wind", time, np.arange(self.n, dtype=np.int32), {"speed": speed, "gusts": gusts}', (
        '"mobility", time, np.array([6], np.int32), {c: np.zeros(1) for c in ("x", "y", "z", "speed", "heading")}, '
        'SlotTable(6, ("a" if time < 3 else "b",), np.array([1 if time < 3 else 2], np.int32), 1 if time < 3 else 2)'
    )),
    ("adapter.py", 'moving = inputs.one("mobility")', "pass"),
]  # fmt: skip

# the same adapter, as one that counts the steps of every moving node, by slot alone
COUNTS = [
    ("adapter.py", 'np.arange(self.n, dtype=np.int32), {"speed": speed, "gusts": gusts}', (
        'moving.slot.copy(), {"speed": np.ones(len(moving)), "gusts": self.seen[moving.slot]}'
    )),
    ("adapter.py", 'moving = inputs.one("mobility")', 'moving = inputs.one("mobility"); self.seen[moving.slot] += 1'),
    ("adapter.py", "self.gusts = 0", "self.gusts = 0; self.seen = np.zeros(context.scene.capacity, np.int32)"),
]  # fmt: skip
MINDS = ("adapter.py", "self.seen[moving.slot] += 1", (
    "n = len(moving.table.ids); now = moving.table.generation; f = moving.table.first; "
    "self.seen[f : f + n][now != self.held[:n]] = 0; self.held[:n] = now; self.seen[moving.slot] += 1"
))  # fmt: skip

CLOSE_POPS = "def close(self):\n        self.buffers.pop()"
NEEDS = 'requires=(Requirement("no_such_module", "ray"),), name="PACKAGE"'
BAD = {
    "unknown keys accepted": ([("config.py", "(AdapterConfig):", "(AdapterConfig, extra='ignore'):")], "not refused"),
    "silent key": ([("config.py", ', description="mean wind speed"', "")], "no description for mean"),
    "example refused": ([("__init__.py", "{mean: 3 m/s}", "{mean: 3}")], "example is refused"),
    "example is a list": ([("__init__.py", "PACKAGE: {mean: 3 m/s}", "[1]")], "example must be the block"),
    "heavy import": ([("__init__.py", "\nWIND =", "\nimport pyarrow\nWIND =")], "also imports pyarrow"),
    "no README": ([("README.md", None, None)], "no README.md"),
    "README without the example": ([("README.md", "PACKAGE: {mean", "PACKAGE: {average")], "does not show the example"),
    "no such factory": ([("__init__.py", "adapter:Wind", "adapter:Storm")], "cannot build the adapter"),
    "no such config": ([("__init__.py", "config:WindConfig", "config:Nothing")], "cannot be loaded"),
    "unknown signal": ([("__init__.py", 'Read("mobility")', 'Read("weather")')], "no signal 'weather'"),
    "catalogue redefined": ([("__init__.py", 'Signal("wind"', 'Signal("host"')], "in the catalogue with other columns"),
    "ports that fail": ([("__init__.py", "ports=Ports(", "ports=lambda c: c.nothing + Ports(")], "cannot be derived"),
    "no finish": ([("adapter.py", "def finish", "def finished")], "the adapter has no finish"),
    "start fails": ([("adapter.py", "self.gusts = 0", "1 / 0")], "start raises ZeroDivisionError"),
    "step fails": ([("adapter.py", "self.gusts += 1", "self.gusts += 1; assert time < 2")], "step 2 raises Assertion"),
    "not a frame": ([("adapter.py", "return [Frame(", "return [dict, (")], "must return frames, not type"),
    "signal left out": ([("adapter.py", "return [Frame(", "return [][1:] or [] and [Frame(")], "returned none"),
    "signal not declared": ([("adapter.py", 'Frame("wind"', 'Frame("host"')], "it returned host"),
    "wrong dtype": ([("adapter.py", "np.zeros(self.n, np.int32)", "np.zeros(self.n)")], "must be int32, not float64"),
    "slot twice": ([("adapter.py", "np.arange(self.n", "np.zeros(self.n")], "more than one row"),
    "wrong time": ([("adapter.py", '"wind", time', '"wind", time - 1')], "another time"),
    "one buffer": ([("adapter.py", "self.buffers.reverse()", "pass")], "'wind' frame of the step before has changed"),
    "shrinking counter": ([("adapter.py", "self.gusts += 1", "self.gusts += 1 - 2 * (time > 2)")], "gusts shrinks"),
    "writes inputs": ([("adapter.py", 'one("mobility")', 'one("mobility"); moving["x"][:] = 0')], "read-only"),
    "writes by force": (
        [("adapter.py", 'one("mobility")', 'one("mobility"); moving["x"].flags.writeable = True; moving["x"][:] = 0')],
        "writes into the 'mobility' frame",
    ),
    "unseeded": ([("adapter.py", "context.rng()", "np.random.default_rng()")], "differs between two runs"),
    "optional input needed": (
        [("adapter.py", 'one("mobility")', 'one("mobility"); inputs.one("link").slot')],
        "without its optional inputs: step 0 raises AttributeError",
    ),
    "summary of numpy": ([("adapter.py", '"gusts": self.gusts}', '"n": np.int64(1)}')], "must return JSON values"),
    "summary of NaN": ([("adapter.py", '"gusts": self.gusts}', '"n": float("nan")}')], "must return JSON values"),
    "no summary": ([("adapter.py", 'return {"gusts": self.gusts}', "return None")], "must return a mapping"),
    "close needs start": ([("adapter.py", "self.buffers = []\n\n    def start", "pass\n\n    def start"),
                           ("adapter.py", "close(self):\n        ", "close(self):\n        self.buffers.clear();")],
                          "close without start raises AttributeError"),
    "close once only": ([("adapter.py", "def close(self):\n        self.buffers = []", CLOSE_POPS),
                         ("adapter.py", "self.buffers = []\n\n", "self.buffers = [1, 2]\n\n"),
                         ("adapter.py", "for _ in range(2)]", "for _ in range(1)]"),
                         ("adapter.py", "self.buffers[0]", "self.buffers[-1]")],
                        "a second close raises IndexError"),
    "close after a failed start": (
        [("adapter.py", "self.rng = context.rng()", "self.buffers = None; self.rng = context.rng()"),
         ("adapter.py", "close(self):\n        ", "close(self):\n        list(self.buffers); ")],
        "close after a start that failed raises TypeError",
    ),
    "fleet without a table": ([*FLEET, ("adapter.py", "SlotTable(6,", "(lambda *a: None)(6,")], "but no table"),
    "table elsewhere": ([*FLEET, ("adapter.py", "SlotTable(6,", "SlotTable(7,")], "no fleet of this adapter starts"),
    "table without the id": ([*FLEET, ("adapter.py", '"b",)', '"",)')], "no id for a slot that has a row"),
    "table of wrong dtype": ([*FLEET, ("adapter.py", "2], np.int32), 1", "2]), 1")], "int32 generations"),
    "silent change of table": ([*FLEET, ("adapter.py", "1 if time < 3 else 2)", "1)")], "while its epoch has not"),
    "same generation": ([*FLEET, ("adapter.py", "[1 if time < 3 else 2]", "[1]")], "without a new generation"),
    "shrinking generation": ([*FLEET, ("adapter.py", "[1 if time < 3 else 2]", "[5 - int(time)]")], "while its epoch"),
    "generations ignored": (COUNTS, "goes on when another member takes the slot"),
    "falling generation": (
        [*FLEET, ("adapter.py", "[1 if time < 3 else 2]", "[2 if time < 3 else 1]")],
        "generation that shrinks",
    ),
}  # fmt: skip

COPIED = ("__init__.py", 'summary="wind"', 'summary="wind", outside=""')
BAD["state in an open file"] = (
    [COPIED, ("adapter.py", "self.gusts = 0", "self.gusts = 0; self.file = open(__file__)"),
     ("adapter.py", "self.gusts += 1", "self.gusts += 1; self.file.read(1) if self.gusts > 2 else 0"),
     ("adapter.py", "close(self):\n", "close(self):\n        getattr(self, 'file', None) and self.file.close()\n")],
    "in a fork, step 2 raises OSError",
)  # fmt: skip
BAD["state in another process"] = (
    [COPIED, ("adapter.py", "self.gusts += 1", "import os; self.gusts += 1 + (os.getpid() != self.pid)"),
     ("adapter.py", "self.gusts = 0", "import os; self.gusts = 0; self.pid = os.getpid()")],
    "'wind' differs between two runs with the same seed, the second of which a fork ends",
)  # fmt: skip

numbers = count()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes the adapter's folder with some replacements and gives its ADAPTER."""

    def make(changes=()):
        name = f"checked_{next(numbers)}"
        files = dict(GOOD)
        for file, old, new in changes:
            if old is None:
                del files[file]
            else:
                assert old in files[file], f"{old!r} is not in {file}"
                files[file] = files[file].replace(old, new)
        folder = tmp_path / name
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text.replace("PACKAGE", name))
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        return importlib.import_module(name).ADAPTER

    return make


def test_a_good_adapter_has_no_faults(package):
    assert find_faults(package()) == []


def test_a_good_adapter_goes_on_in_a_fork(package):
    assert find_faults(package([COPIED])) == []


def test_a_good_owner_of_a_fleet_has_no_faults(package):
    assert find_faults(package(FLEET)) == []


@pytest.mark.parametrize("name", BAD)
def test_each_fault_is_found(package, name):
    changes, expected = BAD[name]
    faults = find_faults(package(changes))
    assert any(expected in text for text in faults), faults


def test_all_faults_are_raised_together(package):
    kind = package([("config.py", ', description="mean wind speed"', ""), ("README.md", None, None)])
    with pytest.raises(ContractError, match="no description for mean") as caught:
        check_adapter(kind)
    assert len(caught.value.faults) == 2
    assert isinstance(caught.value, AssertionError)


def test_measured_numbers_need_not_repeat(package):
    changes = [("adapter.py", "context.rng()", "np.random.default_rng()"),
               ("__init__.py", 'name="PACKAGE"', 'origin="measured", name="PACKAGE"')]  # fmt: skip
    assert find_faults(package(changes)) == []


def test_a_missing_requirement_is_told_with_the_way_to_install_it(package):
    changes = [
        ("__init__.py", "import AdapterKind", "import Requirement, AdapterKind"),
        ("__init__.py", 'name="PACKAGE"', NEEDS),
    ]
    with pytest.raises(SetupError, match=re.escape(how_to_install("ray"))):
        check_adapter(package(changes))


def test_a_configuration_may_be_given(package):
    kind = package()
    assert find_faults(kind, {"mean": "8 m/s"}) == []
    assert "unknown unit" in find_faults(kind, {"mean": "8 apples"})[0]


def test_counters_that_mind_generations_keep_the_contract(package):
    start = ("adapter.py", "self.gusts = 0;", "self.gusts = 0; self.held = np.zeros(99, np.int32);")
    assert find_faults(package([*COUNTS, start, MINDS])) == []


def test_the_checker_runs_from_a_shell(package):
    kind = package()
    faulty = package(BAD["shrinking counter"][0])
    folder = str(Path(importlib.import_module(kind.name).__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {folder!r}); from cosim.testing import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code]
    good = subprocess.run([*command, kind.name], capture_output=True, text=True, timeout=120)
    bad = subprocess.run([*command, faulty.name], capture_output=True, text=True, timeout=120)
    assert (good.returncode, good.stdout) == (0, f"{kind.name}: keeps the contract\n")
    assert bad.returncode == 1
    assert "shrinks" in bad.stdout


def test_the_shell_says_when_there_is_no_adapter(capsys):
    assert main(["no_such_package"]) == 2
    assert main(["json"]) == 2
    assert main([]) == 2
    assert "no_such_package" in capsys.readouterr().err


@pytest.mark.parametrize("name", CATALOGUE)
def test_synthetic_frames_keep_to_the_catalogue(name):
    scene = small_scene("sumo")
    source = Source(CATALOGUE[name], scene, 0.5)
    for step in range(6):
        frame = source.frame(step)
        assert fault(frame, CATALOGUE[name], scene.capacity) == ""
        assert frame.same_as(Source(CATALOGUE[name], scene, 0.5).frame(step))
        assert not frame.slot.flags.writeable


def test_the_synthetic_fleet_reuses_a_slot():
    tables = [fleet_table(small_scene("sumo"), step) for step in range(4)]
    assert [table.ids[1] for table in tables] == ["car-1.1", "car-1.1", "car-1.1", "car-1.2"]
    assert [table.epoch for table in tables] == [1, 2, 2, 3]
    assert np.array_equal(tables[3].generation, [1, 2, 1, 0, 0, 0])
