"""The command line as a person meets it: output, exit codes, mistakes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import typer
from typer.testing import CliRunner

from cosim.cli.console import errors
from cosim.cli.main import app
from cosim.contract.functions import missing_extension
from cosim.contract.plugins import installed
from cosim.scenario.schema import schema
from tests.extensions import needs, needs_all
from tests.forked import cosim

ROOT = Path(__file__).resolve().parents[2]
HELLO = ROOT / "tests" / "scenarios" / "hello"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two runs of hello with the same seed, one by each driver, and one with another seed."""
    base = tmp_path_factory.mktemp("runs")
    for name, more in (("mosaik", ()), ("loop", ("--driver", "loop")), ("other", ("--seed", "8"))):
        done = cosim("run", HELLO, "--set", "run.duration=20 s", "--out", base / name, *more)
        assert done.returncode == 0, done.stderr
    return base


def folder(runs: Path, name: str) -> Path:
    return next((runs / name / "hello").iterdir())


def test_help_lists_the_verbs():
    done = cosim("--help")
    assert done.returncode == 0
    for verb in (
        "check",
        "plan",
        "run",
        "report",
        "compare",
        "import",
        "sweep",
        "adapters",
        "schedulers",
        "schema",
        "doctor",
        "new",
    ):
        assert verb in done.stdout
    assert "..." not in done.stdout.partition("Commands:")[2]  # what is said of a command is not cut off
    assert "line and\n" in done.stdout
    assert "..." not in cosim("new", "--help").stdout.partition("Commands:")[2]


def test_check_says_ok_in_one_line():
    done = cosim("check", HELLO)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("hello: ok - ")


def test_check_reports_every_mistake_with_its_place_and_exits_with_2(tmp_path):
    shutil.copytree(HELLO / "data", tmp_path / "data")
    text = (HELLO / "scenario.cosim.yaml").read_text()
    text = text.replace("seed: 7", "sede: 7").replace("rate: 100 Mbit/s", "rate: 100")
    (tmp_path / "scenario.cosim.yaml").write_text(text.replace("scheduler: least-loaded", "scheduler: least-loded"))
    done = cosim("check", tmp_path)
    assert done.returncode == 2
    assert "did you mean 'seed'" in done.stderr
    assert "100 has no unit" in done.stderr
    assert "scenario.cosim.yaml:9:38: run.sede" in done.stderr
    assert "did you mean 'least-loaded'" in done.stderr
    assert "3 problems found; nothing was started" in done.stderr
    assert "Traceback" not in done.stderr
    as_json = json.loads(cosim("check", tmp_path, "--json").stdout)
    assert {problem["path"] for problem in as_json["error"]["problems"]} >= {"run.sede", "links.0.rate"}


def test_check_names_an_input_file_that_is_not_there():
    done = cosim("check", HELLO, "--set", "adapters.replay.file=data/track.csv")
    assert done.returncode == 2
    assert "adapters.replay.file: there is no file 'data/track.csv' (did you mean 'tracks.csv'?)" in done.stderr


def test_check_tells_where_calibrated_values_are_left(tmp_path):
    scenario = tmp_path / "twin.yaml"
    scenario.write_text(
        f"include: {ROOT / 'scenarios' / 'hello' / 'scenario.cosim.yaml'}\n"
        "calibrated:\n  pi:\n    {date: 2030-01-01T00:00:00+00:00, method: cma-es, seed: 1, runs: 9,\n"
        "     fit: {part: all, before: {}, after: {}},\n"
        "     values: {idle: {value: 2.7 W, interval: [2.5 W, 2.9 W], members: [kinds.field-edge.power.idle]}}}\n",
        encoding="utf-8",
    )
    assert "warning" not in cosim("check", scenario).stdout
    done = cosim("check", scenario, "--set", "nodes.north.power.idle=5 W")
    assert done.returncode == 0
    assert "warning: nodes.north.power.idle is 5 W, and calibration 'pi' found 2.7 W" in done.stdout
    as_json = json.loads(cosim("check", scenario, "--json", "--set", "nodes.north.power.idle=5 W").stdout)
    assert len(as_json["warnings"]) == 1


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
def test_a_missing_scenario_is_a_clear_error(verb, tmp_path):
    done = cosim(verb, tmp_path / "nothing")
    assert done.returncode == 2
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_plan_as_json_is_one_object_with_the_hash():
    data = json.loads(cosim("plan", HELLO, "--json").stdout)
    assert len(data["hash"]) == 64
    assert [adapter["name"] for adapter in data["adapters"]] == ["replay", "radio", "continuum"]


def test_run_prints_the_folder_and_the_report(runs):
    path = folder(runs, "mosaik")
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert manifest["driver"] == "mosaik"
    assert manifest["error"] is None
    assert (path / "report.html").stat().st_size > 10_000
    for name in (
        "tasks.parquet",
        "nodes.parquet",
        "events.parquet",
        "metrics.json",
        "plan.json",
        "scenario.resolved.yaml",
    ):
        assert (path / name).exists(), name


def test_both_drivers_give_bit_equal_results(runs):
    done = cosim("compare", "--exact", folder(runs, "mosaik"), folder(runs, "loop"))
    assert done.returncode == 0, done.stdout
    assert "bit-equal" in done.stdout


def test_another_seed_differs_and_the_exit_code_says_so(runs):
    done = cosim("compare", "--exact", folder(runs, "mosaik"), folder(runs, "other"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["equal"] is False


def test_compare_writes_one_page(runs, tmp_path):
    out = tmp_path / "both.html"
    done = cosim("compare", folder(runs, "mosaik"), folder(runs, "other"), "--out", out)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 10_000
    assert "replications of one configuration" in done.stdout


def test_compare_shows_the_differences_of_two_configurations(runs, tmp_path):
    words = ("--set", "run.duration=20 s", "--set", "adapters.continuum.scheduler=cloud", "--out", tmp_path, "--quiet")
    assert cosim("run", HELLO, *words).returncode == 0
    both = (folder(runs, "mosaik"), next((tmp_path / "hello").iterdir()))
    done = cosim("compare", *both, "--out", tmp_path / "both.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scheduler cloud against scheduler least-loaded")
    assert "response mean" in done.stdout
    data = json.loads(cosim("compare", *both, "--out", tmp_path / "both.html", "--json").stdout)
    assert {effect["figure"] for effect in data["differences"][0]["effects"]} >= {"response_mean", "tasks_created"}


def test_report_can_be_written_again(runs, tmp_path):
    out = tmp_path / "again.html"
    assert cosim("report", folder(runs, "loop"), "--out", out).returncode == 0
    assert "<html" in out.read_text()


def test_something_that_is_no_run_folder_is_named(tmp_path):
    done = cosim("report", tmp_path)
    assert done.returncode == 2
    assert "is not a run folder" in done.stderr


def test_replications_give_intervals_and_are_not_repeated(tmp_path):
    arguments = (
        "run",
        HELLO,
        "--set",
        "run.duration=5 s",
        "--seed",
        "1..3",
        "--out",
        tmp_path,
        "--workers",
        "2",
        "--json",
    )
    first = cosim(*arguments)
    assert first.returncode == 0, first.stderr
    data = json.loads(first.stdout)
    assert (data["runs"], data["failed"]) == (3, [])
    assert Path(data["report"]).exists()
    lines = (Path(data["folder"]) / "results.jsonl").read_text()
    assert json.loads(cosim(*arguments).stdout)["folder"] == data["folder"]
    assert (Path(data["folder"]) / "results.jsonl").read_text() == lines


def test_a_failing_run_of_a_sweep_stops_no_other_and_is_listed(tmp_path):
    scenario = tmp_path / "s"
    scenario.mkdir()
    text = (HELLO / "scenario.cosim.yaml").read_text().replace("data/tracks.csv", "tracks.csv")
    text = text.replace("duration: 2 min", "duration: 5 s")
    (scenario / "scenario.cosim.yaml").write_text(
        text + "\nsweep: {adapters.continuum.scheduler: [least-loaded, 'hasty:fails']}\n"
    )
    (scenario / "tracks.csv").write_text((HELLO / "data" / "tracks.csv").read_text())
    (scenario / "hasty.py").write_text('def fails(request, reach, hosts):\n    raise ValueError("no patience")\n')
    done = cosim("sweep", scenario, "--out", tmp_path / "out", "--workers", "1", "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["runs"] == 2
    (failed,) = data["failed"]
    assert failed["parameters"] == {"adapters.continuum.scheduler": "hasty:fails"}
    assert "no patience" in failed["error"]


def test_sweep_dry_run_lists_and_makes_nothing(tmp_path):
    done = cosim("sweep", HELLO, "--seed", "1..2", "--dry-run", "--out", tmp_path)
    assert done.stdout.splitlines()[-1] == "2 runs"
    assert not list(tmp_path.iterdir())


def test_adapters_and_schedulers_are_listed_with_what_is_missing():
    listed = {row["name"]: row for row in json.loads(cosim("adapters", "--json").stdout)["adapters"]}
    assert {"sumo", "replay", "radio", "continuum", "mosaik"} <= listed.keys()
    assert listed["radio"]["ready"]
    schedulers = {row["name"] for row in json.loads(cosim("schedulers", "--json").stdout)["schedulers"]}
    assert {"nearest", "least-loaded", "cloud", "local", "random", "round-robin", "hybrid"} <= schedulers


@pytest.mark.parametrize("verb", [pytest.param("adapters", marks=needs_all), "schedulers"])
def test_lists_fit_a_terminal_of_80_columns(verb):
    try:
        master, slave = os.openpty()
    except OSError as error:
        pytest.skip(f"there is no terminal: {error}")
    command = [sys.executable, "-m", "cosim", verb]
    with subprocess.Popen(command, stdout=slave, env={**os.environ, "COLUMNS": "80"}) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # what Linux answers once the other end is closed
            while part := os.read(master, 65536):
                shown += part
    os.close(master)
    assert process.returncode == 0
    assert max(map(len, shown.decode().splitlines())) <= 80
    # A word that is longer than a line, such as the path of the interpreter, is broken.
    assert "".join(shown.decode().split()) == "".join(cosim(verb).stdout.split())


def test_the_keys_of_an_adapter_are_told_with_their_defaults():
    keys = {row["key"]: row for row in json.loads(cosim("adapters", "radio", "--json").stdout)["keys"]}
    assert keys["exponent"]["default"] == 3.1
    assert keys["hysteresis"]["default"] == "3 dB"
    text = cosim("adapters", "radio").stdout
    assert "bler_slope" in text
    assert "it reads mobility, traffic, battery, and writes\n\n  link: " in text
    assert "\n    snr            float64 dB     downlink signal" in text
    assert "time_to_trigger: 160 ms" in text
    assert "jammer-on, an event: A jammer starts" in text
    found = json.loads(cosim("adapters", "vehicle", "--json").stdout)
    assert found["nodes"]["vehicle"]["keys"]["frame"] == "flies or drives"
    assert list(found["events"]["engage"]["keys"]) == ["target"]
    wrong = cosim("adapters", "radoi")
    assert wrong.returncode == 2
    assert "no adapter 'radoi'" in wrong.stderr


@needs_all
def test_the_schema_in_the_repository_is_the_generated_one(tmp_path):
    out = tmp_path / "schema.json"
    assert cosim("schema", "--out", out).returncode == 0
    assert out.read_text() == (ROOT / "docs/schema/scenario.v1.json").read_text(), "run: make schema"


def test_doctor_finds_the_machine_ready():
    done = cosim("doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["ready"] is True


def test_a_new_scenario_passes_and_runs_as_it_is(tmp_path):
    assert cosim("new", "scenario", "my-farm", "--in", tmp_path).returncode == 0
    assert cosim("check", tmp_path / "my-farm").returncode == 0
    done = cosim("run", tmp_path / "my-farm", "--out", tmp_path / "runs", "--set", "run.duration=5 s", "--quiet")
    assert done.returncode == 0, done.stderr
    again = cosim("new", "scenario", "my-farm", "--in", tmp_path)
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_a_new_adapter_passes_its_checker_as_it_is(tmp_path):
    package = tmp_path / "plugins"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert cosim("new", "adapter", "weather", "--in", package).returncode == 0
    code = "from cosim.testing import check_adapter; from plugins.weather import ADAPTER; check_adapter(ADAPTER)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_new_adapter_passes_linters_as_it_is(tmp_path):
    pytest.importorskip("ruff")
    assert cosim("new", "adapter", "weather", "--in", tmp_path).returncode == 0
    for verb in (["check", "--isolated", "--select", "E4,E7,E9,F,I"], ["format", "--isolated", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *verb, "--no-cache", "weather"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout


def test_a_scenario_of_the_gallery_is_copied_and_runs(tmp_path):
    done = cosim("new", "--from", "hello", "--in", tmp_path / "mine", "--name", "farm")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "mine/farm/scenario.cosim.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=../scenario.v1.json\napiVersion:")
    assert "\nname: farm\n" in text
    written = (tmp_path / "mine/scenario.v1.json").read_text()
    assert json.loads(written) == json.loads(json.dumps(schema()))
    assert cosim("check", tmp_path / "mine/farm").returncode == 0
    assert "is there already" in cosim("new", "--from", "hello", "--in", tmp_path / "mine", "--name", "farm").stderr
    assert "did you mean 'hello'?" in cosim("new", "--from", "helo", "--in", tmp_path).stderr
    assert "small letters" in cosim("new", "--from", "hello", "--name", "My Farm", "--in", tmp_path).stderr


def test_every_scenario_is_in_the_gallery_with_its_question_and_time():
    found = json.loads(cosim("scenarios", "--json").stdout)["scenarios"]
    folders = [file.parent for file in ROOT.glob("**/scenarios/*/scenario.cosim.yaml") if "tests" not in file.parts]
    assert {one["name"]: Path(one["folder"]).resolve() for one in found} == {path.name: path for path in folders}
    page = (ROOT / "docs/gallery.md").read_text()
    for one in found:
        assert one["title"]
        assert one["time"], one["name"]
        assert f"`{one['name']}`: {one['title']} | {one['question']} | " in page
    pictures = re.findall(r'<img src="(img/gallery/([^"]+)\.png)"', page)
    assert {name for _, name in pictures} == {path.name for path in folders} | set(installed("scenarios"))
    assert all((ROOT / "docs" / file).read_bytes().startswith(b"\x89PNG") for file, _ in pictures)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_has_the_gallery_and_machine_code(tmp_path):
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("building without isolation needs setuptools 77 or newer: pip install 'setuptools>=77'")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    copy = tmp_path / "source"
    left_out = shutil.ignore_patterns(".*", "runs", "site", "build", "tests", "benchmarks", "docs", "precompiled")
    shutil.copytree(ROOT, copy, ignore=left_out)
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(copy)], check=True, capture_output=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    # Another package may be called `adapters`: nothing of ours is imported from outside `cosim`.
    assert {path.name.partition("-")[0] for path in (tmp_path / "installed").iterdir()} == {"cosim", "continuum_cosim"}
    empty = tmp_path / "empty"
    empty.mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "COSIM_CACHE": str(tmp_path / "cache")}
    extended = [] if missing_extension(installed("scenarios")["gpu-philly"]) else [["check", "gpu-philly"]]
    for words in (["new", "--from", "hello"], ["check", "scenarios/hello"], ["new", "scenario", "farm"], *extended):
        done = subprocess.run(
            [sys.executable, "-m", "cosim", *words], cwd=empty, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    assert (empty / "scenarios/scenario.v1.json").is_file()
    missing = [sys.executable, "-m", "cosim", "run", "scenarios/freeway"]
    done = subprocess.run(missing, cwd=empty, env=env, capture_output=True, text=True, timeout=120)
    assert "cosim new --from freeway" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "cosim", "run", "scenarios/hello", "--json", "--no-report"],
        cwd=empty, env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    laid_out = [
        sys.executable,
        "-c",
        "from cosim.testbed.launch import sources as s; from pathlib import Path; s.lay_out(Path('context'))",
    ]
    subprocess.run(laid_out, cwd=empty, env=env, check=True, timeout=60)
    for dockerfile in (empty / "context/containers").glob("*/Dockerfile"):
        copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile.read_text(), re.M)
        assert [path for line in copied for path in line.split() if not (empty / "context" / path).exists()] == []
    assert not list((empty / "context").rglob("*.nbc"))
    first = empty / json.loads(done.stdout)["folder"]
    assert json.loads((first / "manifest.json").read_text())["compiling_seconds"] == 0.0
    assert not list((tmp_path / "cache").rglob("*.nbc"))
    shipped = ROOT / "scenarios/hello"
    there = cosim("run", shipped, "--out", tmp_path / "there", "--json", "--no-report", timeout=400)  # may compile
    equal = cosim("compare", "--exact", first, json.loads(there.stdout)["folder"])
    assert equal.returncode == 0, equal.stdout


@pytest.mark.parametrize("kind", ["scenario", "adapter"])
def test_a_bad_name_for_something_new_is_refused(kind, tmp_path):
    done = cosim("new", kind, "Bad Name", "--in", tmp_path)
    assert done.returncode == 2
    assert "is not a" in done.stderr


def test_a_new_adapter_outside_the_repository_is_used_as_it_says(tmp_path):
    made = cosim("new", "adapter", "weather", "--in", tmp_path)
    assert made.returncode == 0
    assert "weather: {use: weather:ADAPTER}" in made.stdout + made.stderr
    assert f"PYTHONPATH={tmp_path}" in made.stdout + made.stderr
    done = subprocess.run(
        [sys.executable, "-m", "cosim.testing", "weather"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["new", "adapter", "class"], "'class' is a word of Python"),
        pytest.param(
            ["cluster", "timeline", "nowhere", "--out", "x.csv"],
            "must end in .parquet, .prom or .json",
            marks=needs("gpu_cluster"),
        ),
        (["predict", "nowhere", "--twin", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(words, reported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert reported in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_that_arrow_cannot_open_is_named(tmp_path, capsys):
    with pytest.raises(typer.Exit) as caught, errors():
        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "none" / "x.parquet")
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/none/x.parquet: No such file or directory\n"


@pytest.mark.parametrize(
    ("before", "scenario", "after", "code", "reported"),
    [
        ("", HELLO, ">&-", 0, ""),
        ("", "nowhere", "2>&-", 2, ""),
        ("mkdir gone && cd gone && rmdir ../gone && ", "../scenario.cosim.yaml", "", 2, "is gone; change to another"),
    ],
)
def test_closed_streams_and_a_folder_that_is_gone_end_without_a_traceback(
    before, scenario, after, code, reported, tmp_path
):
    (tmp_path / "scenario.cosim.yaml").write_text((HELLO / "scenario.cosim.yaml").read_text())
    command = f"{before}{sys.executable} -m cosim check {scenario} {after}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert reported in done.stderr
