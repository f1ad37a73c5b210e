"""Key files: made, read, and refused when they are not private."""

from __future__ import annotations

import json

import pytest

from cosim.contract.errors import SetupError
from cosim.talk import keys


def test_a_pair_is_written_and_read(tmp_path):
    key = keys.make("pi-lab")
    private, public = keys.write(key, tmp_path / "keys")
    assert private.stat().st_mode & 0o777 == 0o600
    assert keys.read(private) == key
    assert keys.read(public, private=False) == keys.Key("pi-lab", key.public)
    assert "secret" not in public.read_text()
    assert key.secret not in repr(key)


def test_no_key_is_written_over(tmp_path):
    keys.write(keys.make("a"), tmp_path)
    with pytest.raises(SetupError, match=r"a\.key is there already"):
        keys.write(keys.make("a"), tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_loose_permissions_are_refused(tmp_path, mode):
    private, public = keys.write(keys.make("a"), tmp_path)
    private.chmod(mode)
    with pytest.raises(SetupError, match="chmod 600"):
        keys.read(private)
    public.chmod(0o666)
    with pytest.raises(SetupError, match="chmod 644"):
        keys.read(public, private=False)


@pytest.mark.parametrize("name", ["", "../a", "a b", "-x", "x" * 101])
def test_names_are_file_names(name):
    with pytest.raises(SetupError, match="is no name of a key"):
        keys.make(name)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "a"}', '{"name": "a", "public": 3}', "x" * 5000])
def test_anything_else_is_no_key(tmp_path, text):
    path = tmp_path / "a.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SetupError, match=r"is no (private )?key file"):
        keys.read(path)


def test_a_folder_of_keys_lists_who_may_attach(tmp_path):
    server = keys.server_key(tmp_path)
    assert keys.server_key(tmp_path) == server
    one, two = keys.make("one"), keys.make("two")
    keys.write(one, tmp_path / "elsewhere")
    (tmp_path / "one.pub").write_text((tmp_path / "elsewhere/one.pub").read_text())
    keys.write(two, tmp_path)
    assert keys.allowed(tmp_path) == {one.public: "one", two.public: "two"}
    (tmp_path / "three.pub").write_text(json.dumps({"name": "three", "public": one.public}))
    with pytest.raises(SetupError, match=r"the same key as one\.pub"):
        keys.allowed(tmp_path)
    (tmp_path / "three.pub").write_text(json.dumps({"name": "four", "public": one.public}))
    with pytest.raises(SetupError, match=r"must be called four\.pub"):
        keys.allowed(tmp_path)
