"""`cosim doctor`: what it says of versions and of the container engine."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cosim.cli import doctor
from cosim.contract.extras import pip


@pytest.mark.parametrize(
    ("compose", "engine", "state", "said"),
    [
        (None, "", "optional", "no program 'docker'"),
        ("", "24.0.7", "optional", "no plugin 'compose'"),
        ("2.20.3", "24.0.7", "optional", "compose 2.20.3; real nodes as containers need 2.23.1 or newer"),
        ("2.26.1-4", "", "optional", "no engine answers"),
        ("v2.26.1", "24.0.7", "ok", "docker 24.0.7, compose v2.26.1"),
    ],
)
def test_what_containers_need_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compose: str | None, engine: str, state: str, said: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if compose is not None:
        docker = tmp_path / "docker"
        docker.write_text(
            f'#!/bin/sh\nif [ "$1" = compose ]; then said="{compose}"; else said="{engine}"; fi\n'
            '[ -n "$said" ] && echo "$said"\n'
        )
        docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    found = doctor._containers()
    assert (found.state, found.detail[: len(said)]) == (state, said)


def test_a_package_of_another_version_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = "Requires-Dist: numba<0.69,>=0.61.2\nRequires-Dist: numpy>=1.26\n"
    for name, version, more in (("continuum-cosim", "0.1.0", needs), ("numba", "0.69.0", ""), ("numpy", "2.4.6", "")):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")
    monkeypatch.syspath_prepend(tmp_path)
    assert [(found.subject, found.state, found.detail) for found in doctor._core()] == [
        ("continuum-cosim", "ok", "0.1.0"),
        ("numba", "bad", f"0.69.0: {pip('numba<0.69,>=0.61.2')}"),
        ("numpy", "ok", "2.4.6"),
    ]
