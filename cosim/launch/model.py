"""What a rendered compose file says, as arguments for an engine's API.

Only what `cosim.launch.compose` writes is understood. A key that is not known here is an error, so that a
service never runs with less than its file says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from cosim.errors import SetupError

STARTED, HEALTHY, DONE = "service_started", "service_healthy", "service_completed_successfully"
_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::-(?P<default>[^}$]*))?\}|(?P<other>))")
_UNIT = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9}  # ns
_SAME = {  # of a service -> of the engine's API, with the same value
    "init": "init", "hostname": "hostname", "user": "user", "mem_limit": "mem_limit", "cpu_period": "cpu_period",
    "cpu_quota": "cpu_quota", "cap_add": "cap_add", "cap_drop": "cap_drop", "security_opt": "security_opt",
    "devices": "devices", "extra_hosts": "extra_hosts",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Service:
    """One container: what it is made with, and what has to be there before it starts."""

    name: str
    image: str
    arguments: dict[str, Any]  # for `create`, without names that are the project's
    networks: tuple[str, ...]  # names in the file
    joins: str  # the service whose network namespace it shares, or ""
    volumes: tuple[tuple[str, str], ...]  # volume's name in the file, "PATH:MODE" in the container
    folders: tuple[tuple[str, str], ...]  # folder of this machine, "PATH:MODE" in the container
    after: dict[str, str]  # service -> condition
    files: tuple[tuple[str, str], ...]  # path in the container, content


@dataclass(frozen=True, slots=True)
class Model:
    """All services in an order in which they can be started, and what they share."""

    services: tuple[Service, ...]
    networks: dict[str, dict[str, Any]]  # name -> arguments for `create`
    volumes: dict[str, dict[str, Any]]


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """`text` with ${NAME} and ${NAME:-default} replaced and $$ made $, as compose does.

    As there, an empty variable counts as none where a default stands, and an unknown one without a default
    is empty. Raises `SetupError` for any other use of $.
    """

    def put(found: re.Match[str]) -> str:
        if found["other"] is not None:
            raise SetupError(f"cannot read the variable in '{text}': write ${{NAME}}, or $$ for a dollar sign")
        if found["name"] is None:
            return "$"
        return variables.get(found["name"], "") or found["default"] or ""

    return _VARIABLE.sub(put, text)


def read(text: str, folder: Path, variables: Mapping[str, str], profiles: tuple[str, ...] = ()) -> Model:
    """The compose file `text` that lies in `folder`; services with a profile only when it is in `profiles`.

    Raises `SetupError` for a key or a value that is not understood, wherever it stands, and for services that
    wait for each other.
    """
    document = _replaced(YAML(typ="safe", pure=True).load(text), variables)
    _known("the compose file", document, {"services", "networks", "volumes", "secrets", "configs"})
    networks = {name: _network(name, given or {}) for name, given in document.get("networks", {}).items()}
    volumes = {name: _volume(name, given or {}) for name, given in document.get("volumes", {}).items()}
    contents = {}
    for name, given in document.get("configs", {}).items():
        _known(f"configs.{name}", given, {"content"})
        contents[name] = given["content"]
    services = {}
    for name, given in document["services"].items():
        made = _service(name, given, folder, contents)  # those that are not started as well: nothing unknown passes
        _there(made, networks, volumes)
        wanted = given.get("profiles")
        if not wanted or set(wanted) & set(profiles):
            services[name] = made
    used = {volume for service in services.values() for volume, _ in service.volumes}
    return Model(_ordered(services), networks, {name: volumes[name] for name in volumes if name in used})


def _replaced(given: Any, variables: Mapping[str, str]) -> Any:  # noqa: ANN401 - anything that YAML holds
    if isinstance(given, str):
        return interpolated(given, variables)
    if isinstance(given, list):
        return [_replaced(item, variables) for item in given]
    if isinstance(given, dict):
        return {key: _replaced(value, variables) for key, value in given.items()}
    return given


def _known(where: str, given: Mapping[str, Any], keys: set[str]) -> None:
    unknown = sorted(set(given) - keys)
    if unknown:
        raise SetupError(f"{where}: '{unknown[0]}' is not understood here; start it with `docker compose up`")


def _network(name: str, given: dict[str, Any]) -> dict[str, Any]:
    _known(f"networks.{name}", given, {"internal", "driver_opts"})
    found = {"driver": "bridge", "internal": bool(given.get("internal", False))}
    return found | ({"options": dict(given["driver_opts"])} if "driver_opts" in given else {})


def _volume(name: str, given: dict[str, Any]) -> dict[str, Any]:
    _known(f"volumes.{name}", given, {"driver_opts"})
    return {"driver": "local", "driver_opts": dict(given.get("driver_opts", {}))}


def _service(name: str, given: dict[str, Any], folder: Path, contents: Mapping[str, str]) -> Service:
    where = f"services.{name}"
    _known(where, given, {*_SAME, *_READ, "image", "build", "profiles", "networks", "volumes", "depends_on",
                          "network_mode", "configs"})  # fmt: skip
    arguments = {engine: given[key] for key, engine in _SAME.items() if key in given}
    for key, (engine, convert) in _READ.items():
        if key in given:
            arguments[engine] = convert(f"{where}.{key}", given[key])
    mode = given.get("network_mode", "")
    joins = mode.removeprefix("service:") if mode.startswith("service:") else ""
    if mode == "none":
        arguments["network_mode"] = "none"
    elif mode and not joins:
        raise SetupError(f"{where}.network_mode: '{mode}' is not understood here")
    after = given.get("depends_on", {})
    after = {other: {"condition": STARTED} for other in after} if isinstance(after, list) else after
    for other, how in after.items():
        _known(f"{where}.depends_on.{other}", how, {"condition"})
        if how["condition"] not in (STARTED, HEALTHY, DONE):
            raise SetupError(f"{where}.depends_on.{other}: condition '{how['condition']}' is not understood here")
    volumes, folders = [], []
    for mount in given.get("volumes", ()):
        source, _, target = mount.partition(":")
        if target.count(":") > 1 or not target.startswith("/"):
            raise SetupError(f"{where}.volumes: '{mount}' is not understood here")
        if source.startswith((".", "/")):
            folders.append((os.path.normpath(folder / source), target))
        else:
            volumes.append((source, target))
    files = []
    for config in given.get("configs", ()):
        _known(f"{where}.configs", config, {"source", "target"})
        files.append((config["target"], contents[config["source"]]))
    return Service(
        name,
        given["image"],
        arguments,
        tuple(sorted(given.get("networks", ()))),  # as compose has them
        joins,
        tuple(volumes),
        tuple(folders),
        {other: how["condition"] for other, how in after.items()} | ({joins: STARTED} if joins else {}),
        tuple(files),
    )


def _there(service: Service, networks: Mapping[str, Any], volumes: Mapping[str, Any]) -> None:
    """Raise when it names something that is not in the file."""
    missing = [name for name in service.networks if name not in networks]
    missing += [name for name, _ in service.volumes if name not in volumes]
    if missing:
        raise SetupError(f"services.{service.name}: there is no '{missing[0]}' in the compose file")
    if not service.networks and not service.joins and "network_mode" not in service.arguments:
        raise SetupError(f"services.{service.name}: say its networks; a default network is not made here")


def _ordered(services: Mapping[str, Service]) -> tuple[Service, ...]:
    for service in services.values():
        missing = [name for name in service.after if name not in services]
        if missing:
            raise SetupError(f"services.{service.name} waits for '{missing[0]}', which is not started")
    try:
        names = list(TopologicalSorter({name: list(s.after) for name, s in services.items()}).static_order())
    except CycleError as error:
        raise SetupError(f"services wait for each other: {', '.join(error.args[1])}") from error
    return tuple(services[name] for name in names)


def _words(where: str, given: Any) -> list[str]:  # noqa: ANN401
    if not isinstance(given, list):
        raise SetupError(f"{where}: a list of words is expected")
    return [str(word) for word in given]


def _strings(where: str, given: Any) -> dict[str, str]:  # noqa: ANN401
    if not isinstance(given, dict):
        raise SetupError(f"{where}: a mapping is expected")
    return {name: str(value) for name, value in given.items()}


def _restart(where: str, given: Any) -> dict[str, str]:  # noqa: ANN401
    if given not in ("unless-stopped", "always", "no"):
        raise SetupError(f"{where}: '{given}' is not understood here")
    return {"Name": given}


def _ports(where: str, given: Any) -> dict[str, list[tuple[str, str]]]:  # noqa: ANN401
    """ "ADDRESS:HOST:PORT" with a port, a range or nothing for HOST; a range takes the first port that is free."""
    found: dict[str, list[tuple[str, str]]] = {}
    for text in given:
        match = re.fullmatch(r"([\d.]+):(\d+(?:-\d+)?|):(\d+)", text)
        if match is None:
            raise SetupError(f"{where}: '{text}' is not understood here; ADDRESS:HOST:PORT is expected")
        address, host, port = match.groups()
        found.setdefault(f"{port}/tcp", []).append((address, host))
    return found


def _health(where: str, given: Any) -> dict[str, Any]:  # noqa: ANN401
    _known(where, given, {"test", "interval", "timeout", "retries"})
    found = dict(given)
    for key in ("interval", "timeout"):
        if key in found:
            match = re.fullmatch(r"(\d+)(ms|s|m)", found[key])
            if match is None:
                raise SetupError(f"{where}.{key}: '{found[key]}' is not understood here; '2s' is expected")
            found[key] = int(match[1]) * _UNIT[match[2]]
    return found


_READ: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "command": ("command", _words),
    "entrypoint": ("entrypoint", _words),
    "environment": ("environment", _strings),
    "sysctls": ("sysctls", _strings),
    "restart": ("restart_policy", _restart),
    "ports": ("ports", _ports),
    "healthcheck": ("healthcheck", _health),
}
