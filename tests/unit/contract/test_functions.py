"""Modules beside a scenario file."""

import sys
from pathlib import Path

import cosim
from cosim.contract import units
from cosim.contract.functions import attribute_of, search_in


def test_the_next_scenario_forgets_the_modules_of_the_last_but_no_installed_ones(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    own, other = tmp_path / "own", tmp_path / "other"
    below = own / "venv" / "site-packages" / "packed_below"
    for folder in (own, other, below):
        folder.mkdir(parents=True, exist_ok=True)
    (own / "beside_it.py").write_text("number = 1\n")
    (other / "beside_it.py").write_text("number = 2\n")
    (below / "__init__.py").write_text("")
    sys.path.insert(0, str(below.parent))
    installed = attribute_of("packed_below", "")
    search_in(own)
    assert attribute_of("beside_it", "number") == 1
    search_in(other)
    assert attribute_of("beside_it", "number") == 2
    assert sys.modules.pop("packed_below") is installed
    sys.modules.pop("beside_it")


def test_a_scenario_beside_the_package_does_not_make_it_be_imported_again(tmp_path, monkeypatch) -> None:
    root = Path(cosim.__file__).resolve().parents[1]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if Path(entry).resolve() != root])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    search_in(root)
    search_in(tmp_path)
    assert sys.modules["cosim.contract.units"] is units
