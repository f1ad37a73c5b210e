"""What doorkeepers leave behind in the folder for temporary files: nothing, also after a kill."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from cosim.talk.doorkeeper import SMALL, Doorkeeper


def test_folders_of_killed_processes_are_removed_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, alive, fresh = (tmp_path / f"cosim-door-{name}" for name in ("killed", "alive", "fresh"))
    for folder in (killed, alive, fresh):
        folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as ended:
        listening.bind(str(alive / "door"))
        listening.listen()
        ended.bind(str(killed / "door"))  # a kill leaves the path of a socket that nobody listens at
        keeper = Doorkeeper("tcp://127.0.0.1:*", SMALL)
        try:
            assert not killed.exists()
            assert alive.exists()
            assert fresh.exists()  # may be about to listen
            assert len(list(tmp_path.iterdir())) == 3
        finally:
            keeper.close()
    assert sorted(tmp_path.iterdir()) == sorted((alive, fresh))
