"""`cosim ros2`: a run under way as topics of ROS 2."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import errors, note
from cosim.contract.errors import require


def ros2(
    address: Annotated[str, typer.Argument(help="The address that a run publishes at.")],
    connect: Annotated[
        str, typer.Option(help="The zenoh router of ROS 2 (rmw_zenohd), or any zenoh endpoint.")
    ] = "tcp/127.0.0.1:7447",
    domain: Annotated[int, typer.Option(help="ROS_DOMAIN_ID of those who listen.", min=0)] = 0,
    token: Annotated[str | None, typer.Option(help="The run's token; default: COSIM_TOKEN.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="The run's folder, if it is on this machine: for pictures of cameras.")
    ] = None,
) -> None:
    """Publish a run under way as topics of ROS 2, as rmw_zenoh does: no ROS installation is needed here."""
    with errors():
        require("ros2", "zenoh", "rosbags")
        from cosim.extensions.ros2.bridge import bridge
        from cosim.extensions.ros2.node import RosNode

        given = os.environ.get("COSIM_TOKEN", "") if token is None else token
        with closing(RosNode(domain, connect)) as node:
            typer.echo(f"the node 'cosim' of ROS domain {domain} has the run at {address}")
            try:
                bridge(address, node, folder=folder, token=given.strip())
            except KeyboardInterrupt:
                note("stopped; the run goes on")
            else:
                note("the run has ended")
