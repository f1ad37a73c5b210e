"""Writing an imported scenario: all or nothing."""

import pytest

from cosim.contract.errors import ScenarioError, SetupError
from cosim.sources.importing.imported import Imported, Notice, refuse_doubtful
from cosim.sources.importing.write import write_scenario

GOOD = """\
apiVersion: cosim/v1
kind: Scenario
name: tiny
run: {duration: 10 s, step: 1 s}
adapters:
  replay: {file: tracks.csv}
nodes:
  uav: {kind: uav, fleet: replay, capacity: 4}
"""


def tracks(path):
    path.write_text("time,id,x,y\n0,a,0,0\n9,a,9,9\n")


def test_the_scenario_and_the_files_beside_it_are_written(tmp_path):
    path = write_scenario(tmp_path / "new" / "folder", Imported(GOOD, beside={"tracks.csv": tracks}))
    assert path == tmp_path / "new" / "folder" / "scenario.cosim.yaml"
    assert path.read_text() == GOOD
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["scenario.cosim.yaml", "tracks.csv"]


def test_a_file_name_is_taken_as_it_is(tmp_path):
    assert write_scenario(tmp_path / "a.yaml", Imported(GOOD, beside={"tracks.csv": tracks})).name == "a.yaml"


def test_nothing_is_left_of_a_scenario_that_does_not_pass_the_checks(tmp_path):
    with pytest.raises(ScenarioError, match=r"s.cosim.yaml:6:18: adapters.replay.file: there is no file"):
        write_scenario(tmp_path / "deep" / "er" / "s.cosim.yaml", Imported(GOOD))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_a_file_beside_it_cannot_be_made(tmp_path):
    def broken(path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(SetupError, match=r"cannot be written.*No space left"):
        write_scenario(tmp_path / "s.cosim.yaml", Imported(GOOD, beside={"a": tracks, "b": broken}))
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_replaced_only_by_force(tmp_path):
    out = tmp_path / "s.cosim.yaml"
    imported = Imported(GOOD, beside={"tracks.csv": tracks})
    (tmp_path / "tracks.csv").write_text("mine")
    with pytest.raises(SetupError, match=r"tracks.csv is there already.*--force"):
        write_scenario(out, imported)
    assert not out.exists()
    assert (tmp_path / "tracks.csv").read_text() == "mine"
    write_scenario(out, imported, force=True)
    assert (tmp_path / "tracks.csv").read_text().startswith("time")


def test_a_failed_replacement_leaves_the_old_files(tmp_path):
    out = write_scenario(tmp_path / "s.cosim.yaml", Imported(GOOD, beside={"tracks.csv": tracks}))
    with pytest.raises(ScenarioError):
        write_scenario(out, Imported(GOOD.replace("duration", "durration"), beside={"tracks.csv": tracks}), force=True)
    assert out.read_text() == GOOD


def test_strict_refuses_all_notices_but_notes(tmp_path):
    notes = [Notice("note", tmp_path, 1, "a", "known"), Notice("note", None, None, "", "known")]
    refuse_doubtful(notes)
    with pytest.raises(ScenarioError, match=r":2: b: has no effect \(ignored, refused by --strict\)") as caught:
        refuse_doubtful([*notes, Notice("ignored", tmp_path, 2, "b", "has no effect")])
    assert len(caught.value.problems) == 1
