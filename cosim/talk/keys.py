"""Key files: CURVE25519 pairs as ZeroMQ writes them (Z85 text), one JSON object per file.

`NAME.key` is private (mode 0600) and stays on its machine; `NAME.pub` is what a gateway must know. A gateway's
own pair is `server.key` and `server.pub` in its folder of keys, and that folder's other `.pub` files are all that
may attach.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from zmq.utils import z85

from cosim.contract.errors import SetupError
from cosim.talk.codec import Text

SERVER = "server"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LONGEST = 4096  # B of a key file
_Z85 = r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}"
_KEY, _MAYBE = Text(40, pattern=_Z85), Text(40, pattern=f"({_Z85})?")
_FIELDS = {"name": Text(100, pattern=NAME.pattern), "public": _KEY, "secret": _MAYBE, "server": _MAYBE}


@dataclass(frozen=True, slots=True)
class Key:
    """A pair of keys, or a public one (`secret` is then empty)."""

    name: str
    public: str  # Z85, 40 characters
    secret: str = field(default="", repr=False)  # must not get into logs
    server: str = ""  # public key of the gateway that it is for, if known


def make(name: str, server: str = "") -> Key:
    """A new pair. Raises `SetupError` for a name that is no file name."""
    import zmq

    if not NAME.fullmatch(name):
        raise SetupError(f"'{name[:100]}' is no name of a key: letters, digits, '.', '_' and '-'")
    public, secret = zmq.curve_keypair()
    return Key(name, public.decode(), secret.decode(), server)


def of_token(token: str) -> tuple[Key, Key]:
    """The pairs of server and client that both derive who know `token`, which itself never travels.

    So a client knows that the server has the token before it sends anything, and strangers end in the handshake.
    """
    import zmq

    def derived(role: str) -> tuple[str, str]:
        secret = z85.encode(hashlib.sha256(f"cosim {role} {token}".encode("utf-8", "replace")).digest())
        return zmq.curve_public(secret).decode(), secret.decode()

    server = Key(SERVER, *derived(SERVER))
    return server, Key("client", *derived("client"), server.public)


def words_of(token: str) -> bytes:
    """What an observer who knows `token` shows any publication, the run's or not: it gives no command."""
    return hashlib.sha256(f"cosim observer {token}".encode()).hexdigest().encode() if token else b""


def write(key: Key, folder: Path) -> tuple[Path, Path]:
    """Write `NAME.key` (0600) and `NAME.pub` into `folder`; existing files are never written over."""
    private, public = folder / f"{key.name}.key", folder / f"{key.name}.pub"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, mode, data in (
            (private, 0o600, {"name": key.name, "public": key.public, "secret": key.secret, "server": key.server}),
            (public, 0o644, {"name": key.name, "public": key.public}),
        ):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=1)
                file.write("\n")
    except FileExistsError as error:
        raise SetupError(f"{error.filename} is there already; remove it if that key is no longer used") from error
    except OSError as error:
        raise SetupError(f"the key cannot be written to {folder}: {error}") from error
    return private, public


def read(path: Path, *, private: bool = True) -> Key:
    """The key in `path`. Raises `SetupError` when it is none, or when others may read or write a private one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            text = file.read(_LONGEST + 1)
    except OSError as error:
        raise SetupError(f"the key {path} cannot be read: {error.strerror or error}") from error
    loose = 0o077 if private else 0o022
    if mode & loose:
        who = "read or written" if private else "written"
        raise SetupError(
            f"the key {path} can be {who} by others (mode {mode & 0o777:o}): chmod {600 if private else 644} {path}"
        )
    try:
        data = json.loads(text) if len(text) <= _LONGEST else None
    except ValueError:
        data = None
    said = {name: data.get(name, "") for name in _FIELDS} if isinstance(data, dict) else {}
    if not said or not all(_FIELDS[name](text) for name, text in said.items()) or (private and not said["secret"]):
        raise SetupError(f"{path} is no {'private ' if private else ''}key file; make one with  cosim live-key NAME")
    return Key(**said if private else {**said, "secret": ""})


def server_key(folder: Path) -> Key:
    """The gateway's own pair in `folder`, made when there is none."""
    path = folder / f"{SERVER}.key"
    if not path.exists():
        write(make(SERVER), folder)
    return read(path)


def allowed(folder: Path) -> dict[str, str]:
    """Public key -> name, of all `.pub` files in `folder` but the server's."""
    found: dict[str, str] = {}
    try:
        paths = sorted(folder.glob("*.pub"))
    except OSError as error:
        raise SetupError(f"the folder of keys {folder} cannot be read: {error}") from error
    for path in paths:
        key = read(path, private=False)
        if path.stem == SERVER:
            continue
        if key.name != path.stem:
            raise SetupError(f"{path} holds the key of '{key.name}'; the file must be called {key.name}.pub")
        if key.public in found:
            raise SetupError(f"{path} is the same key as {found[key.public]}.pub; every name needs a key of its own")
        found[key.public] = key.name
    return found
