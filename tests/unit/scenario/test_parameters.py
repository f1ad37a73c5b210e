from collections.abc import Callable
from pathlib import Path

import pytest

from cosim.contract.errors import Problem, ScenarioError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import checked, compile_plan
from cosim.scenario.plan.variants import wrong_values
from cosim.scenario.sweep import expand

SITE = """\
apiVersion: cosim/v1
kind: Scenario
name: site
parameters: {N: 3, load: 2 Hz, seed: 7}
run: {duration: 10 s, seed: "${seed}"}
adapters: {continuum: {scheduler: nearest}}
kinds: {camera: {tier: device}}
nodes:
  camera-[1..5]: {kind: camera}
  edge-[1..N]: {kind: edge, cpu: 2 x 1 GHz}
links:
  - {between: [camera-*, "edge-[1..N]"], rate: 100 Mbit/s}
workloads:
  pictures: {from: camera-*, arrivals: "poisson ${load}", work: 90 Mcycles}
"""


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Path]:
    def write(*changes: tuple[str, str]) -> Path:
        text = SITE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        file = tmp_path / "scenario.cosim.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture(autouse=True)
def _registry() -> None:  # the real adapters
    return None


def hosts(path: Path, *overrides: str) -> list[str]:
    return [node.id for node in load(path, overrides).world.nodes if node.kind == "edge"]


def test_a_range_of_nodes_ends_at_a_parameter_that_can_be_set_and_swept(site: Callable[..., Path]) -> None:
    path = site(("run:", "sweep: {parameters.N: 1..3}\nrun:"))
    assert hosts(path) == ["edge-1", "edge-2", "edge-3"]
    assert hosts(path, "parameters.N=1") == ["edge-1"]
    loaded = load(path)
    assert [len(hosts(path, *variant.overrides)) for variant in expand(loaded)] == [1, 2, 3]
    assert wrong_values(loaded) == []


def test_texts_take_parameters_with_their_type(site: Callable[..., Path]) -> None:
    loaded = load(site(), ["parameters.load=5 Hz"])
    assert loaded.scenario.run.seed == 7
    assert loaded.scenario.workloads["pictures"].arrivals.rate == 5.0


def test_it_is_the_run_of_a_file_without_parameters_and_its_text_keeps_them(
    site: Callable[..., Path], tmp_path: Path
) -> None:
    with_parameters = compile_plan(load(site(), ["parameters.N=4"]))
    plain = SITE.replace("parameters: {N: 3, load: 2 Hz, seed: 7}\n", "").replace("1..N", "1..4")
    (tmp_path / "plain.yaml").write_text(plain.replace('"${seed}"', "7").replace("${load}", "2 Hz"))
    assert with_parameters.hash == compile_plan(load(tmp_path / "plain.yaml")).hash
    (tmp_path / "again.yaml").write_text(with_parameters.resolved)
    assert compile_plan(load(tmp_path / "again.yaml")).hash == with_parameters.hash
    assert hosts(tmp_path / "again.yaml", "parameters.N=2") == ["edge-1", "edge-2"]


@pytest.mark.parametrize("path", ["nodes.edge-[1..N].cpu", "nodes.edge-[1..3].cpu"])
def test_nodes_are_overridden_by_their_name_as_it_is_written_or_with_the_number(
    site: Callable[..., Path], path: str
) -> None:
    node = load(site(), [f"{path}=8 x 1 GHz"]).world.nodes[-1]
    assert (node.id, node.block.cpu and node.block.cpu.cores) == ("edge-3", 8)


@pytest.mark.parametrize(
    ("changes", "overrides", "said"),
    [
        ((("N: 3, ", ""),), (), ["nodes.edge-[1..N]: there is no parameter 'N'", "links.0.between.1: there is no"]),
        ((("parameters: {N: 3, load: 2 Hz, seed: 7}\n", ""),), (), ["nodes: 'N' ends a range of nodes"]),
        ((("N: 3,", "N: 3, M: 2,"),), (), ["parameters.M: parameter 'M' is used nowhere"]),
        ((("N: 3,", "N: [3],"),), (), ["parameters.N: expected text or a whole number"]),
        ((), ("parameters.N=2.5",), ["parameters.N: the number 2.5 is no end of a range"]),
        ((), ("parameters.N=0",), ["nodes.edge-[1..0]: the range [1..0] runs backwards"]),
        ((), ("parameters.K=2",), ["parameters.K: there is no parameter 'K'"]),
        ((("parameters: {N: 3, load: 2 Hz, seed: 7}", "parameters: 3"),), (), ["parameters: expected a mapping"]),
    ],
)
def test_mistakes_are_told_at_their_place(
    site: Callable[..., Path], changes: tuple[tuple[str, str], ...], overrides: tuple[str, ...], said: list[str]
) -> None:
    from cosim.contract.errors import ScenarioError

    with pytest.raises(ScenarioError) as caught:
        load(site(*changes), overrides)
    found: list[Problem] = caught.value.problems
    for text in said:
        assert any(f"{one.path}: {one.message}".startswith(text) for one in found), [str(one) for one in found]


def problems_of(path: Path, *overrides: str) -> list[tuple[str, str]]:
    with pytest.raises(ScenarioError) as caught:
        load(path, overrides)
    return [(problem.path, problem.message) for problem in caught.value.problems]


def test_a_misspelt_parameter_is_told_and_what_shells_have_stays(site: Callable[..., Path]) -> None:
    path = site(("poisson ${load}", "poisson ${laod}"))
    assert ("workloads.pictures.arrivals", "there is no parameter 'laod'") in problems_of(path)
    load(site(("name: site", "name: site\ndescription: in ${HOME} at ${load}")))


def test_titles_say_what_parameters_stand_for(site: Callable[..., Path]) -> None:
    path = site(("name: site", 'name: site\ntitle: "${N}"\ndescription: "edge-[1..M] at ${load}"'))
    scenario = load(path, ["parameters.N=2"]).scenario
    assert (scenario.title, scenario.description) == ("2", "edge-[1..M] at 2 Hz")


def test_a_list_for_a_parameter_is_told_once_and_in_plain_words(site: Callable[..., Path]) -> None:
    found = problems_of(site(), "parameters.N=[1,2]", "parameters.load=[3]")
    assert {path for path, _ in found} <= {"parameters.N", "parameters.load", "workloads.pictures.arrivals"}
    assert not [message for _, message in found if "Item(" in message or "end of a range" in message]


def test_a_wrong_link_is_not_told_again_as_a_source_without_a_host(site: Callable[..., Path]) -> None:
    with pytest.raises(ScenarioError) as caught:
        checked(site(("rate: 100 Mbit/s", "rate: 100")))
    assert [problem.path for problem in caught.value.problems] == ["links.0.rate"]
