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
DynamicUser=yes
LoadCredential={credential}:{key}
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
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


def unit(name: str, program: str, key: str, arguments: list[str]) -> str:
    """A hardened unit file that runs `program attach` with `arguments` and the private key file `key`.

    The service has a user of its own; systemd hands it the key, which others cannot read.
    """
    credential = f"{name}.key"
    words = [program, "attach", "--key", f"${{CREDENTIALS_DIRECTORY}}/{credential}"]
    command = " ".join([*words, *map(_quoted, arguments)])
    return _UNIT.format(name=name, command=command, credential=credential, key=key)


def _quoted(word: str) -> str:
    """`word` as systemd reads it: no specifiers, no variables."""
    word = word.replace("%", "%%").replace("$", "$$")
    if word and all(c.isalnum() or c in "-_./:=,@$%*+" for c in word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
