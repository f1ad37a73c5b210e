"""Every example in the documentation is executed, or checked against the models it is written for.

In the order of each page: blocks with a `title` become files, Python blocks run, YAML is loaded, and
`cosim` commands of console blocks are run in a folder that holds the shipped scenarios. A command
with a word in capitals (RUN_A) needs something that the reader has: its verb and options are
looked up in `--help` instead.
"""

import os
import re
import shlex
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from cosim.contract import registry
from cosim.contract.functions import missing_extension
from cosim.contract.plugins import installed
from cosim.scenario import tree
from cosim.scenario.load import load
from cosim.scenario.model import Scenario
from cosim.scenario.parameters import filled
from cosim.scenario.reading import read_text
from cosim.scenario.schema import full_model
from tests.extensions import named, needs
from tests.forked import cosim

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]
FENCE = re.compile(
    r"^(?P<ticks>`{3,}) ?(?P<word>\w*)(?: +title=\"(?P<title>[^\"]+)\")?[^\n`]*\n(?P<text>.*?)^(?P=ticks)$", re.M | re.S
)
LONG = ("environments.md", "offloading.md", "offloading-vehicular.md")  # pages that take more than ten seconds
SLOW = pytest.mark.slow
NEEDS = {
    "autopilot.md": ["pymavlink"], "environments.md": ["gymnasium"],
    "export.md": ["foxglove", "mcap_protobuf", "pythonfmu3"],
    "mail-mmsg.md": ["gymnasium"], "policies.md": ["pandas"], "results.md": ["pandas"],
    "twin.md": ["sumo"],
}  # fmt: skip
EXTENSIONS = {
    "cluster.md": ["gpu_cluster"], "coming-from.md": ["cosco", "edgecloudsim", "importers"], "corais.md": ["corais"],
    "dataset.md": ["detection"], "datacentre.md": ["extcloudsim"],
    "environments.md": ["corais", "cosco", "mail_mmsg"],
    "export.md": ["fmu", "foxglove", "mlsysops", "radio_logs"],
    "import.md": ["edgecloudsim", "gpu_cluster", "importers", "maps", "mlsysops", "traces"],
    "interval.md": ["cosco"],
    "jamming.md": ["detection"],     "mail-mmsg.md": ["mail_mmsg"],
    "offloading.md": ["edgecloudsim"], "offloading-vehicular.md": ["edgecloudsim"],
    "policies.md": ["cosco", "mlsysops"],
    "predictor.md": ["extcloudsim"], "publish.md": ["research_object"],
    "reproduce.md": ["reproduce"], "schedulers.md": ["cosco", "metanet"],
    "traces.md": ["traces"], "twin-edge.md": ["published_data"], "twin-simtune.md": ["simtune"],
    "view.md": ["foxglove", "ros2"],
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    word: str
    title: str
    text: str


def blocks(page):
    source = page.read_text("utf-8")
    return [
        Block(page, source.count("\n", 0, found.start()) + 1, found["word"], found["title"] or "", found["text"])
        for found in FENCE.finditer(source)
    ]


def every(word):
    found = [
        block for page in PAGES if page.exists() for block in blocks(page) if block.word == word and not block.title
    ]
    return [pytest.param(block, id=f"{block.page.name}:{block.line}") for block in found]


def parsed(text):
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("block", every("yaml"))
def test_yaml_is_what_the_models_accept(block, tmp_path):
    data = parsed(block.text)
    assert isinstance(data, dict)
    if data.get("kind") == "Scenario":
        Scenario.model_validate(data)
        file = tmp_path / "scenario.cosim.yaml"
        file.write_text(block.text)
        load(file)
        return
    if list(data) in ([name] for name in registry.adapter_names()):  # an adapter's README shows its block bare
        data = {"adapters": data}
    if "parameters" in data:
        problems = []
        data = tree.plain(filled(read_text(block.text, None, problems), problems))
        assert not problems
    for kind in (keys.get("use", name) for name, keys in data.get("adapters", {}).items()):
        if extension := missing_extension(installed("adapters").get(kind, "")):
            pytest.skip(f"the extension '{extension}' is not there")
    model = full_model()
    for key, value in data.items():
        assert key in model.model_fields, f"'{key}' is no key of a scenario"
        TypeAdapter(model.model_fields[key].annotation).validate_python(value)
    for name, keys in data.get("adapters", {}).items():
        kind = keys.get("use", name)
        if kind in registry.adapter_names():
            registry.adapter_kind(kind).load_config().model_validate(keys)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[needs(*EXTENSIONS.get(page.name, ())), *[SLOW] * (page.name in LONG)])
        for page in PAGES
        if page.exists()
    ],
)
def test_files_and_python_and_commands_work_in_order(page, tmp_path, monkeypatch):
    found = [block for block in blocks(page) if block.title or block.word in ("python", "console")]
    if not found:
        pytest.skip("nothing to execute on this page")
    for module in NEEDS.get(page.name, ()):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("scenarios", "extensions"):
        (tmp_path / name).symlink_to(ROOT / name)
    names, exported = {}, {}
    for block in found:
        where = f"{page.name}:{block.line}"
        if block.title:
            target = tmp_path / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        elif block.word == "python":
            exec(compile(block.text, where, "exec"), names)
        else:
            for line in block.text.splitlines():
                if line.startswith("$ export "):
                    name, _, value = line.removeprefix("$ export ").partition("=")
                    exported[name] = value
                if line.startswith("$ cosim "):
                    run(shlex.split(line.removeprefix("$ cosim ").partition(" #")[0]), tmp_path, where, exported)


def run(words, folder, where, exported):
    asked = words
    if any(re.fullmatch(r"[A-Z][A-Z_]+|…", word) for word in words):
        asked = [*takewhile(re.compile(r"[a-z][a-z0-9]*").fullmatch, words), "--help"]
    done = cosim(*asked, cwd=folder, env={**os.environ, **exported})
    assert done.returncode == 0, f"{where}: cosim {' '.join(words)}\n{done.stdout}{done.stderr}"
    if asked is not words:
        missing = [word for word in words if word.startswith("--") and word.partition("=")[0] not in done.stdout]
        assert not missing, f"{where}: {words[0]} has no option {', '.join(missing)}"


def test_every_adapter_is_on_the_page_of_adapters():
    page = (DOCS / "adapters.md").read_text("utf-8")
    missing = [name for name in registry.adapter_names() if f"\n## {name}\n" not in page]
    assert not missing, f"docs/adapters.md has no section on {', '.join(missing)}"


@pytest.mark.parametrize("name", named("adapters", registry.adapter_names()))
def test_every_example_of_an_adapter_is_accepted(name):
    kind = registry.adapter_kind(name)
    kind.load_config().model_validate(kind.example_block())
