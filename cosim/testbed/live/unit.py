"""The systemd unit of an agent."""

from __future__ import annotations

_UNIT = """\
[Unit]
Description=continuum-cosim agent {name}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=5
{shaping}DynamicUser=yes
LoadCredential={credential}:{key}
NoNewPrivileges=yes
CapabilityBoundingSet={capability}
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX{family}
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
MemoryMax=50%
TasksMax=256

[Install]
WantedBy=multi-user.target
"""


# Nothing that a killed agent has shaped stays so.
_SHAPING = """\
ExecStopPost=-{python} -m cosim.testbed.live.shaper {interface}
AmbientCapabilities=CAP_NET_ADMIN
"""


def unit(
    name: str, program: str, key: str, arguments: list[str], *, interface: str = "", python: str = "/usr/bin/python3"
) -> str:
    """A hardened unit file that runs `program attach` with `arguments` and the private key file `key`.

    The service has a user of its own; systemd hands it the key, which others cannot read. With `interface` it may
    shape that, which `python` undoes in the end.
    """
    credential = f"{name}.key"
    words = [program, "attach", "--key", f"${{CREDENTIALS_DIRECTORY}}/{credential}"]
    command = " ".join([*words, *map(_quoted, arguments)])
    return _UNIT.format(
        name=name, command=command, credential=credential, key=key,
        shaping=_SHAPING.format(python=_quoted(python), interface=_quoted(interface)) if interface else "",
        capability="CAP_NET_ADMIN" if interface else "", family=" AF_NETLINK" if interface else "",
    )  # fmt: skip


def _quoted(word: str) -> str:
    """`word` as systemd reads it: no specifiers, no variables."""
    word = word.replace("%", "%%").replace("$", "$$")
    if word and all(c.isalnum() or c in "-_./:=,@$%*+" for c in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
