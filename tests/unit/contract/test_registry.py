"""Adapters are found by name, or by the place of their description."""

from __future__ import annotations

import pytest

from cosim.contract.adapter import AdapterKind, Requirement
from cosim.contract.errors import SetupError
from cosim.contract.registry import adapter_kind, adapter_names, is_place, list_adapters


def test_a_library_of_the_system_that_is_missing_is_named_with_its_package():
    libraries = (("libc.so.6", "libc6"), ("libabsent.so.1", "libabsent1"), ("libgone.so.2", "libgone2"))
    assert Requirement("json", "sumo", libraries[:1]).missing() == ""
    assert Requirement("json", "sumo", libraries).missing() == (
        "module 'json' needs libraries of the system: libabsent.so.1 libgone.so.2; "
        "on Debian: apt install libabsent1 libgone2"
    )


def test_the_adapters_of_this_repository_are_found_by_folder():
    assert {"sumo", "replay", "radio", "continuum", "mosaik"} <= set(adapter_names())
    assert adapter_kind("replay").name == "replay"
    assert {listing.name for listing in list_adapters()} == set(adapter_names())


def test_an_adapter_is_found_by_the_place_of_its_description():
    assert adapter_kind("cosim.adapters.replay:ADAPTER") is adapter_kind("replay")


@pytest.mark.parametrize("name", ["a.b:C", "a:b", "_x.y_1:Z9"])
def test_places(name):
    assert is_place(name)


@pytest.mark.parametrize("name", ["", "sumo", "a:", ":b", "a.:b", ".a:b", "a:b:c", "a b:c", "a:b.c", "a:b\n", "1:2"])
def test_what_is_no_place(name):
    assert not is_place(name)
    if name != "sumo":
        with pytest.raises(SetupError, match="there is no adapter"):
            adapter_kind(name)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no_such_package.adapter:ADAPTER", "there is no module 'no_such_package' .*PYTHONPATH"),
        ("cosim.adapters.replay:NOTHING", "has no attribute 'NOTHING'"),
        ("cosim.adapters.replay:__doc__", "is a str, not an AdapterKind"),
    ],
)
def test_a_place_without_a_description_is_a_clear_error(place, why):
    with pytest.raises(SetupError, match=why):
        adapter_kind(place)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("\nraise SystemExit(3)", r"SystemExit: 3 \(.*fails_on_import.py:2\)"),
        ("1 / 0", r"ZeroDivisionError: division by zero \(.*fails_on_import.py:1\)"),
        ("def (", "fails_on_import.py:1: invalid syntax"),
    ],
)
def test_a_package_that_fails_on_import_takes_nothing_along(code, why, tmp_path, monkeypatch):
    (tmp_path / "fails_on_import.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SetupError, match=f"'fails_on_import:ADAPTER' cannot be imported: .*{why}"):
        adapter_kind("fails_on_import:ADAPTER")
    assert isinstance(adapter_kind("replay"), AdapterKind)
