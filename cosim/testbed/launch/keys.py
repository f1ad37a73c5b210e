"""Keys of the real nodes that attach to their run, made automatically when it is started.

    python -m cosim.testbed.launch.keys --owner-of /scenario NODE...

In containers a service of this command runs once, before all others. Its volumes are the only place that holds all
keys: the run gets `server.key` and the public keys, every node its own private one. Existing keys stay.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cosim.contract.errors import CosimError
from cosim.talk import keys

GATEWAY = Path("/keys/gateway")  # of the run
NODES = Path("/keys/nodes")  # a folder per node
PRIVATE = "node.key"
USER = 1000  # as whom the software of nodes runs in our images


def name_of(node: str) -> str:
    """The name of a node's key; no node can take the one of the gateway's own."""
    return f"node-{node}"


def provide(gateway: Path, nodes: Mapping[str, Path]) -> None:
    """Make what is missing: the gateway's pair, and a pair per node.

    `gateway` gets `server.key`, `server.pub` and all nodes' public keys, each folder in `nodes` the private key of
    its node. Private keys have mode 0600. With the gateway's pair all others are made anew. Raises `SetupError`.
    """
    fresh = not (gateway / f"{keys.SERVER}.key").exists()
    if fresh:
        for file in gateway.glob("*.pub"):
            file.unlink()
        keys.write(keys.make(keys.SERVER), gateway)
    server = keys.read(gateway / f"{keys.SERVER}.pub", private=False)
    for node, folder in nodes.items():
        private, public = folder / PRIVATE, gateway / f"{name_of(node)}.pub"
        if private.exists() and public.exists():
            continue
        private.unlink(missing_ok=True)
        public.unlink(missing_ok=True)
        made, other = keys.write(keys.make(name_of(node), server.public), folder)
        public.write_bytes(other.read_bytes())
        public.chmod(0o644)
        other.unlink()
        made.rename(private)


def main() -> int:
    """Provide the keys and give each to its reader."""
    parser = argparse.ArgumentParser(
        prog="python -m cosim.testbed.launch.keys", description="Make the keys of real nodes."
    )
    parser.add_argument("--owner-of", type=Path, required=True, help="whose owner the run becomes")
    parser.add_argument("nodes", nargs="*")
    given = parser.parse_args()
    try:
        provide(GATEWAY, {node: NODES / node for node in given.nodes})
    except CosimError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if os.getuid() == 0:
        owner = given.owner_of.stat()
        os.chown(GATEWAY / f"{keys.SERVER}.key", owner.st_uid, owner.st_gid)
        for node in given.nodes:
            os.chown(NODES / node / PRIVATE, USER, USER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
