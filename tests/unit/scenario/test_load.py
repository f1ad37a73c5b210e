"""Loading: every mistake is reported with its place and what to do, and all of them at once."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from cosim.contract.errors import Problem, ScenarioError, SetupError
from cosim.scenario.load import load
from tests.unit.scenario import fakes

Farm = Callable[..., Path]
Problems = Callable[..., list[Problem]]


def line_of(text: str) -> int:
    return fakes.FARM[: fakes.FARM.index(text)].count("\n") + 1


def test_a_right_scenario_knows_its_values_and_where_they_are(farm: Farm) -> None:
    file = farm()
    loaded = load(file)
    assert loaded.scenario.name == "smart-farm"
    assert loaded.scenario.run.step == 0.5
    assert loaded.files == (file,)
    assert list(loaded.adapters) == ["engine", "air", "traffic"]
    assert isinstance(loaded.adapters["air"].config, fakes.RadioConfig)
    place = loaded.place("links.1.delay")
    assert (place.file, place.line, place.column) == (file, line_of("    delay: 20 ms"), 12)
    assert loaded.place("nodes.edge-1.power.max").line == line_of("    power: {max: 8 W}")


def test_a_folder_stands_for_the_scenario_in_it(farm: Farm) -> None:
    assert load(farm().parent).path.name == "scenario.cosim.yaml"


@pytest.mark.parametrize(
    ("old", "new", "path", "message", "hint"),
    [
        ("seed: 7", "seed: x", "run.seed", "expected a whole number, found 'x'", ""),
        ("seed: 7", f"seed: {10**29}", "run.seed", "expected a smaller number", ""),
        ("seed: 7", f"seed: {'9' * 80}", "run.seed", "expected a smaller number", ""),
        ("[uav-*, cars]", "[]", "workloads.weed-detection.from", "an empty list selects no node", "name nodes"),
        ("seed: 7", "seed: -7", "run.seed", "must be at least 0, found the number -7", ""),
        ("seed: 7", "sed: 7", "run.sed", "unknown key 'sed'", "did you mean 'seed'?"),
        ("duration: 10 min", "duraton: 10 min", "run.duraton", "unknown key", "did you mean 'duration'?"),
        ("delay: 20 ms", "delay: 20", "links.1.delay", "20 has no unit", ""),
        ("delay: 20 ms", "delay: 20 MB", "links.1.delay", "unknown unit 'MB' for a time", ""),
        ("loss: 5 %", "loss: 105 %", "events.1.loss", "must be at most 100 %", ""),
        ("4 x 1.8 GHz", "four", "kinds.edge.cpu", "'four' is not a processor such as '4 x 1.8 GHz'", ""),
        ("poisson 2 Hz", "sometimes", "workloads.weed-detection.arrivals", "is not an arrival law", ""),
        ("poisson 2 Hz", "'poisson ${load}'", "workloads.weed-detection.arrivals", "'${load}'", "no parameter 'load'"),
        ("work: 90 M", "werk: 90 M", "workloads.weed-detection.werk", "unknown key 'werk'", "did you mean 'work'?"),
        ("do: fail", "do: fial", "events.0.do", "'fial' is not possible here", "did you mean 'fail'?"),
        ("origin: [39.36, 22.95, 60 m]", "origin: [139.36, 22.95]", "geo.origin", "is not a latitude", ""),
        ("22.95, 60 m]", "22.95, 60]", "geo.origin", "60 has no unit", ""),
        ("at: [120 m, 40 m, 5 m]", "at: [120 m]", "nodes.edge-1.at", "needs at least 2 entries, found 1", ""),
        ("at: [120 m, 40 m, 5 m]", "at: there", "nodes.edge-1.at", "'there' is no place; write coordinates as", ""),
        ("  traffic:", "  traffic: 5", "adapters.traffic", "expected a mapping, found the number 5", ""),
        ("carrier: 3.5", "carier: 3.5", "adapters.air.carier", "unknown key 'carier'", "did you mean 'carrier'?"),
        ("scheduler: least-loaded", "scheduler: leastload", "adapters.engine.scheduler", "not possible", "did you"),
        ("  air:", "  radioo:", "adapters.radioo", "there is no adapter 'radioo'", "installed: air, engine"),
        ("  air:", "  air: \n    use: ari", "adapters.air.use", "there is no adapter 'ari'", "did you mean 'air'?"),
        ("fleet: traffic", "fleet: trafic", "nodes.cars.fleet", "there is no adapter 'trafic'", "did you mean 'tra"),
        ("fleet: traffic", "fleet: engine", "nodes.cars.fleet", "adapter 'engine' does not move anything", "name"),
        ("{kind: vehicle", "{kind: vehicel", "nodes.cars.kind", "there is no kind 'vehicel'", "mean 'vehicle'?"),
        ("[uav-*, cars]", "[uva-1, cars]", "workloads.weed-detection.from.0", "'uva-1' selects no node", "'uav-1'?"),
        ("{from: [uav", "{source: kind:uav, from: [uav", "workloads.weed-detection.source", "unknown key", "from"),
        ("kind:vehicle", "kind:vehicel", "workloads.report.from", "selects no node", "did you mean 'kind:vehicle'?"),
        ("node: edge-1", "node: egde-1", "events.0.node", "'egde-1' selects no node", "did you mean 'edge-1'?"),
        ("edge-1/cloud", "edge-1/clod", "events.1.link", "'clod' selects no node", "did you mean 'cloud'?"),
        ("delay: +120 ms, loss: 5 %", "for: 1 s", "events.1.do", "degrades nothing", "give 'delay'"),
        ("do: fail", "do: recover", "events.0.for", "'do: recover' has no end", "remove 'for'"),
        ("mobility: {", "mobilty: {", "record.mobilty", "there is no signal 'mobilty'", "did you mean 'mobility'?"),
        ("columns: [x, y]", "columns: [x, w]", "record.mobility.columns.1", "there is no column 'w'", ""),
        ("run.seed: 1..20", "run.sed: 1..20", "sweep.run.sed", "cannot sweep 'run.sed'", "did you mean 'seed'?"),
        ("run.seed: 1..20", "run.seed: 20..1", "sweep.run.seed", "runs backwards", "smaller number first"),
        ("run.seed: 1..20", "run.seed: [1, 2, 1]", "sweep.run.seed", "the value 1 stands there twice", "leave one out"),
        ("engine.scheduler:", "engine.schedular:", "sweep.adapters.engine.schedular", "cannot sweep", "'scheduler'?"),
        ("engine.scheduler:", "engin.scheduler:", "sweep.adapters.engin.scheduler", "no adapter 'engin'", "'engine'?"),
        ('"uav-*", color', '"uvw-*", color', "groups.far.members", "group 'far' has no members", ""),
        ('color: "#112233"', "color: red", "groups.far.color", "'red' does not have the right form", "#rrggbb"),
        ("name: smart-farm", "name: Smart Farm", "name", "does not have the right form", "small letters"),
        ("apiVersion: cosim/v1", "apiVersion: cosim/v2", "apiVersion", "'cosim/v2' is not possible", "did you mean"),
        ("uav-[1..3]:", "uav-[3..1]:", "nodes.uav-[3..1]", "the range [3..1] runs backwards", "for example"),
        ("uav-[1..3]:", f"{'a' * 70}:", f"nodes.{'a' * 70}", "has 70 characters, more than 64", "for example"),
        ("uav-[1..3]:", "a b:", "nodes.a b", "'a b' is not a name of nodes", "for example"),
        ("  report:", "  my report:", "workloads.my report", "'my report' is not a name", "a letter"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_problem_with_its_place(
    problems: Problems, old: str, new: str, path: str, message: str, hint: str
) -> None:
    (found,) = problems((old, new))
    assert found.path == path
    assert message in found.message
    assert hint in found.hint
    assert found.line == line_of(old) + new.count("\n")
    assert found.column is not None
    assert found.file is not None


def test_columns_point_at_values_and_at_unknown_keys(problems: Problems) -> None:
    value, key = problems(("seed: 7", "seed: x"), ("delay: 1 ms", "dely: 1 ms"))
    line = fakes.FARM.splitlines()[5]
    assert value.column == line.index("seed") + len("seed: ") + 1
    line = fakes.FARM.splitlines()[key.line - 1 if key.line else 0]
    assert key.column == line.index("delay") + 1


def test_all_mistakes_come_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    found = problems(
        ("seed: 7", "seed: x"),
        ("carrier: 3.5 GHz", "carier: 3.5 GHz"),
        ("    kind: edge\n", "    knd: edge\n"),
        ("delay: 20 ms", "delay: 20"),
        ("[uav-*, cars]", "[uva-1, cars]"),
        ("arrivals: every 10 s, ", ""),
        ("node: edge-1", "node: edge-1, nod: 3"),
        ("engine.scheduler:", "engine.schedular:"),
        ("kind: cloud,", "kind: cloudy,"),
    )
    assert [problem.path for problem in found] == [
        "run.seed", "adapters.air.carier", "nodes.edge-1.knd", "nodes.cloud.kind", "links.1.delay",
        "workloads.weed-detection.from.0", "workloads.report.arrivals", "events.0.nod",
        "sweep.adapters.engine.schedular",
    ]  # fmt: skip
    assert [problem.line for problem in found] == sorted(problem.line or 0 for problem in found)


def test_missing_keys_name_their_block(problems: Problems) -> None:
    (found,) = problems(("run: {duration: 10 min, ", "run: {"))
    assert (found.path, found.message) == ("run.duration", "key 'duration' is missing")
    found_all = problems(text="apiVersion: cosim/v1\n")
    assert {problem.path for problem in found_all} == {"kind", "name", "run", "adapters", "nodes"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((", at: [0 m, 20 m]", ""), "has a radio but no position"),
        (("base-station, at: [0 m, 0 m]", "base-station"), "has a cell but no position"),
        (("fleet: traffic,", "fleet: traffic, at: [0 m, 0 m],"), "a fleet moves and has no 'at'"),
        (("kind: cloud, ", "kind: cloud, capacity: 3, "), "'capacity' is for fleets"),
        (("power: {max: 8 W}", "power: {max: 1 W}"), "max power is below idle power"),
        (("  cloud: {kind: cloud, ", "  cloud: {"), "has no kind"),
        (("  cloud:", "  uav-2:"), "node 'uav-2' is defined twice"),
        (("  edge: {cpu", "  edge: {kind: edg, cpu"), "there is no kind 'edg'"),
    ],
)
def test_what_only_the_whole_node_shows(problems: Problems, change: tuple[str, str], message: str) -> None:
    assert any(message in problem.message and problem.line for problem in problems(change))


def test_kinds_that_start_from_each_other(problems: Problems) -> None:
    kinds = ("kinds:\n", "kinds:\n  a: {kind: b}\n  b: {kind: a}\n  c: {kind: b}\n")
    (found,) = problems(kinds, ("nodes:\n", "nodes:\n  z: {kind: c}\n"))
    assert (found.path, found.message) == ("kinds.a.kind", "kinds start from each other: a -> b -> a")


def test_the_computers_on_board_of_a_fleet_have_their_names_for_themselves(problems: Problems, farm: Farm) -> None:
    real = ("fleet: traffic, capacity: 50", "fleet: traffic, capacity: 50, runs: vedgenode")
    (found,) = problems(real, ("nodes:\n", "nodes:\n  cars-50: {kind: cloud, cpu: 1 x 1 GHz}\n"))
    assert (found.path, found.message) == (
        "nodes.cars-50",
        "'cars-50' is the computer on board of slot 50 of fleet 'cars'",
    )
    assert found.line == fakes.FARM[: fakes.FARM.index("nodes:")].count("\n") + 2
    for name in ("cars-51", "cars-0", "cars-07", "cars-x", "cars-1-2"):
        load(farm(real, ("nodes:\n", f"nodes:\n  {name}: {{kind: cloud, cpu: 1 x 1 GHz}}\n")))
    load(farm(("nodes:\n", "nodes:\n  cars-5: {kind: cloud, cpu: 1 x 1 GHz}\n")))  # all of them are simulated


def test_one_fleet_per_adapter(problems: Problems) -> None:
    (found,) = problems(("nodes:\n", "nodes:\n  vans: {kind: vehicle, fleet: traffic}\n"))
    assert "can own one fleet only" in found.message
    assert "use: traffic" in found.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# only a remark\n", "is empty"),
        ("- a\n- b\n", "expected a mapping of keys, found a list"),
        ("just text\n", "expected a mapping of keys, found 'just text'"),
        ("a:\n\tb: 1\n", "a tab is used for indentation"),
        ("a: b: c\n", "mapping values are not allowed here"),
        ("a: *x\n", "alias '*x' has no anchor"),
        ("a: &x [*x]\n", "stands inside the value that it refers to"),
        ("a: !!python/object:os.system x\n", "tag '!!python/object:os.system' is not allowed here"),
        ("? [a, b]\n: c\n", "a key must be text"),
        ("a: 1\n---\nb: 2\n", "a second document starts here"),
        ("[" * 10_000, "more than 48 levels of nesting"),
        ("a: \x07\n", "is not YAML: control character '\\x07'"),
        ('a: "b\n', "is not YAML: a quote is not closed"),
        ("a: {b: 1\n", "is not YAML"),
        ('a: "\\0"\n', "text holds a zero or half a character"),
        ('"\\ud83d": 1\n', "text holds a zero or half a character"),
    ],
)
def test_files_that_are_no_scenario(problems: Problems, text: str, message: str) -> None:
    assert any(message in problem.message for problem in problems(text=text))


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("a: 1\nb: \x07\n", 2, 4, ""),
        ('a: 1\nb: "c\nd: 2\n', 2, 4, ""),
        ("a: {b: poisson ${load}, c: 1}\n", 1, 17, "put text with ${...} in quotes"),
    ],
)
def test_what_yaml_does_not_take_has_its_place(
    problems: Problems, text: str, line: int, column: int, hint: str
) -> None:
    (found,) = problems(text=text)
    assert (found.line, found.column, found.hint) == (line, column, hint)


def test_repeated_keys_are_found_together_with_other_mistakes(problems: Problems) -> None:
    found = problems(("title: A farm", "title: A farm\nname: other"), ("seed: 7", "seed: x"))
    assert [problem.message for problem in found] == [
        "key 'name' appears twice",
        "expected a whole number, found 'x'",
    ]
    assert found[0].hint == "the first one is in line 4"


def test_alias_bombs_are_stopped_before_they_grow(problems: Problems) -> None:
    names = "abcdefghij"
    text = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for below, name in pairwise(names):
        text += f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n"
    (found,) = problems(text=text)
    assert "more than 400,000 values, aliases included" in found.message


def test_anchors_and_merge_keys_are_welcome(farm: Farm) -> None:
    loaded = load(farm(
        ("  - {between: [mast, edge-1], rate: 1 Gbit/s, delay: 1 ms}",
         "  - &link {between: [mast, edge-1], rate: 1 Gbit/s, delay: 1 ms}\n  - {<<: *link, delay: 2 ms}"),
    ))  # fmt: skip
    assert [link.delay for link in loaded.scenario.links] == [0.001, 0.002, 0.02]
    assert loaded.scenario.links[1].rate == 1e9


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"name: ok\ntitle: caf\xe9\n")
    with pytest.raises(ScenarioError) as caught:
        load(file)
    (found,) = caught.value.problems
    assert (found.message, found.line, found.column) == ("byte 0xe9 is not UTF-8", 2, 11)


def test_huge_files_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"#" * 4_000_001)
    with pytest.raises(ScenarioError, match="is larger than 4 MB"):
        load(file)


def test_paths_that_lead_nowhere(tmp_path: Path, farm: Farm) -> None:
    with pytest.raises(ScenarioError, match="there is no such file or folder"):
        load(tmp_path / "nothing")
    with pytest.raises(ScenarioError, match=r"folder has no scenario\.cosim\.yaml"):
        load(tmp_path)
    file = farm()
    with pytest.raises(ScenarioError, match=r"did you mean '.*scenario\.cosim\.yaml'"):
        load(file.with_name("scenario.cosm.yaml"))
    with pytest.raises(ScenarioError, match="there is no such file"):
        load("\0")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ScenarioError, match="not an ordinary file"):
        load(tmp_path / "pipe")


class TestIncludes:
    def test_the_including_file_wins_and_mappings_are_merged(self, farm: Farm) -> None:
        file = farm(("name: smart-farm", "name: smart-farm\ninclude: [base.yaml, more.yaml]"))
        (file.parent / "base.yaml").write_text("run: {seed: 1, timeout: 5 s}\ndescription: base\ntitle: base\n")
        (file.parent / "more.yaml").write_text("description: more\nnodes: {extra: {kind: cloud}}\n")
        loaded = load(file)
        assert (loaded.scenario.run.seed, loaded.scenario.run.timeout) == (7, 5.0)
        assert (loaded.scenario.title, loaded.scenario.description) == ("A farm", "more")
        assert "extra" in loaded.scenario.nodes
        assert [path.name for path in loaded.files] == ["scenario.cosim.yaml", "base.yaml", "more.yaml"]
        assert "include" not in loaded.text

    def test_mistakes_in_an_included_file_name_that_file(self, farm: Farm) -> None:
        file = farm(("name: smart-farm", "name: smart-farm\ninclude: parts/base.yaml"))
        (file.parent / "parts").mkdir()
        (file.parent / "parts" / "base.yaml").write_text("run:\n  timeout: 5\n")
        with pytest.raises(ScenarioError) as caught:
            load(file)
        (found,) = caught.value.problems
        assert found.file is not None
        assert (found.file.name, found.line, found.column) == ("base.yaml", 2, 12)

    def test_missing_ones_are_all_reported(self, farm: Farm) -> None:
        file = farm(("name: smart-farm", "name: smart-farm\ninclude:\n  - bse.yaml\n  - other.txt"))
        (file.parent / "base.yaml").write_text("title: x\n")
        with pytest.raises(ScenarioError) as caught:
            load(file)
        first, second = caught.value.problems
        assert (first.path, first.line, first.column) == ("include.0", 6, 5)
        assert first.hint == "did you mean 'base.yaml'?"
        assert "there is no file" in second.message

    def test_circles_are_named(self, farm: Farm) -> None:
        file = farm(("name: smart-farm", "name: smart-farm\ninclude: [a.yaml]"))
        (file.parent / "a.yaml").write_text("include: [b.yaml]\n")
        (file.parent / "b.yaml").write_text("title: b\ninclude: [a.yaml]\n")
        with pytest.raises(ScenarioError) as caught:
            load(file)
        (found,) = caught.value.problems
        assert "files include each other" in found.message
        assert found.file is not None
        assert (found.file.name, found.line) == ("b.yaml", 2)

    @pytest.mark.parametrize("written", ["5", "[1, 2]", "{a: b}", "['']"])
    def test_anything_but_names_is_refused(self, problems: Problems, written: str) -> None:
        (found,) = problems(("name: smart-farm", f"name: smart-farm\ninclude: {written}"))
        assert found.message == "expected a list of file names"


class TestOverrides:
    def test_values_are_yaml(self, farm: Farm) -> None:
        loaded = load(farm(), ["run.seed=9", "adapters.engine.scheduler=random", "nodes.uav-[1..3].at=[1 m, 2 m, 3 m]",
                               "links.1.delay=5 ms", "run.lag.policy=strict", "adapters.traffic.scale=2"])  # fmt: skip
        assert loaded.scenario.run.seed == 9
        assert loaded.scenario.run.lag.policy == "strict"
        assert loaded.scenario.nodes["uav-[1..3]"].at == [1.0, 2.0, 3.0]
        assert loaded.scenario.links[1].delay == 0.005
        assert loaded.adapters["engine"].config.model_dump()["scheduler"] == "random"
        assert "delay: 5 ms" in loaded.text

    def test_whole_entries_can_be_added(self, farm: Farm) -> None:
        loaded = load(farm(), ["nodes.edge-9={kind: edge}", "adapters.rain={use: weather, city: Volos}"])
        assert "edge-9" in loaded.scenario.nodes
        assert loaded.adapters["rain"].kind.name == "weather"

    @pytest.mark.parametrize(
        ("text", "path", "message", "hint"),
        [
            ("run.sed=3", "run.sed", "unknown key 'sed'", "did you mean 'seed'?"),
            ("rnu.seed=3", "rnu.seed", "unknown key 'rnu'", "did you mean 'run'?"),
            ("nodes.edge-2.at=1", "nodes.edge-2.at", "there is no node 'edge-2'", "did you mean 'edge-1'?"),
            ("adapters.engin.interval=1 s", "adapters.engin.interval", "there is no adapter 'engin'", "'engine'?"),
            ("adapters.engine.intervall=1 s", "adapters.engine.intervall", "unknown key", "did you mean 'interval'?"),
            ("links.7.delay=1 s", "links.7.delay", "links has no entry '7'", "it has 2, counted from 0"),
            ("run.seed.x=1", "run.seed.x", "run.seed has no keys", "it is the number 7"),
            ("run.step=1", "run.step", "1 has no unit", ""),
            ("run.seed", "", "'run.seed' sets nothing", "write --set run.seed=7"),
            ("=5", "", "'=5' sets nothing", "write --set"),
            ("run.seed=[1", "run.seed", "value '[1' is not YAML", "quote it"),
        ],
    )
    def test_mistakes(self, problems: Problems, text: str, path: str, message: str, hint: str) -> None:
        (found,) = problems(overrides=(text,))
        assert found.path == path
        assert message in found.message
        assert hint in found.hint
        assert str(found).startswith("--set: ")
        assert found.line is None


def test_an_adapter_that_cannot_be_imported_is_a_problem_of_the_scenario(
    problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> object:
        raise SetupError(f"adapter '{name}' cannot be imported: no such module")

    monkeypatch.setattr("cosim.contract.registry.adapter_kind", broken)
    found = problems()
    assert len(found) == 3
    assert all("cannot be used" in problem.message for problem in found)


def test_only_used_adapters_are_imported(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def kind(name: str) -> object:
        asked.append(name)
        return fakes.KINDS[name]

    monkeypatch.setattr("cosim.contract.registry.adapter_kind", kind)
    load(farm())
    assert sorted(asked) == ["air", "engine", "traffic"]


def test_the_resolved_text_is_the_same_scenario(farm: Farm) -> None:
    loaded = load(farm(), ["run.seed=11"])
    again = load(farm(text=loaded.text))
    assert again.data == loaded.data
    assert again.scenario == loaded.scenario
    assert again.text == loaded.text
