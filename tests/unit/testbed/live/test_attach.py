"""`cosim attach`: what its options about shaping mean, without a run."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.talk import keys


@pytest.fixture
def attach(tmp_path, monkeypatch):
    """Runs `cosim attach` with a key and more options; output and exit code."""
    monkeypatch.chdir(tmp_path)
    keys.write(keys.make("pi", keys.server_key(tmp_path / "keys").public), tmp_path)

    def run(*words):
        done = CliRunner().invoke(app, ["attach", "--key", "pi.key", "--server", "tcp://127.0.0.1:1", *words])
        return done.output, done.exit_code

    return run


def test_the_owner_may_be_told_what_is_possible(attach):
    text, code = attach("--dry-run", "--no-tasks", "--allow-shaping", "nowhere9")
    found = json.loads(text)
    assert (code, found["shaping"]) == (0, "none")
    assert "there is no interface 'nowhere9'" in found["shaper"]["refused"]
    text, _ = attach("--dry-run", "--no-tasks", "--allow-shaping", "builtins:print", "--shape-within", "10.0.0.0/8")
    found = json.loads(text)
    assert (found["shaping"], found["shaper"]) == ("full", {"within": ["10.0.0.0/8"], "lacks": ""})
    text, _ = attach("--dry-run", "--no-tasks")
    assert json.loads(text)["shaping"] == "none"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--allow-shaping", "nowhere9"), "there is no interface 'nowhere9'"),
        (("--allow-shaping", "os:nothing"), "cannot be imported"),
        (("--allow-shaping", "os:name"), "is a str, not a function"),
        (("--allow-shaping", "os:listdir", "--shape-within", "10.0.0.1/8"), "has host bits set"),
        (("--shape-within", "10.0.0.0/8"), "needs --allow-shaping"),
    ],
)
def test_what_cannot_be_is_said_at_the_start(attach, words, said):
    text, code = attach("--no-tasks", *words)
    assert code == 2
    assert said in text


def test_the_unit_of_a_machine_that_is_not_this_one_can_be_printed(attach):
    text, code = attach("--systemd", "--allow-shaping", "eth7", "--shape-within", "10.0.0.0/8")
    assert code == 0
    assert "--allow-shaping eth7 --shape-within 10.0.0.0/8\n" in text
    assert "cosim.testbed.live.shaper eth7\n" in text
    text, _ = attach("--systemd", "--allow-shaping", "mine:shape")
    assert "--allow-shaping mine:shape\n" in text
    assert "NET_ADMIN" not in text
