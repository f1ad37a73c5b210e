"""`cosim ros2`: a run under way as topics of ROS 2."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
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
    control: Annotated[
        str,
        typer.Option(metavar="RUN|ADDRESS", help="A run's folder, or where it takes commands: for goals of copters."),
    ] = "",
    folder: Annotated[
        Path | None, typer.Option(help="The run's folder, if it is on this machine: for pictures of cameras.")
    ] = None,
) -> None:
    """Publish a run under way as topics of ROS 2, as rmw_zenoh does: no ROS installation is needed here."""
    with errors():
        require("ros2", "zenoh", "rosbags")
        from cosim.extensions.ros2.bridge import Goals, bridge
        from cosim.extensions.ros2.node import RosNode
        from cosim.talk.control import command, find

        given = os.environ.get("COSIM_TOKEN", "") if token is None else token
        door = find(control, given.strip()) if control else ("", "")
        with closing(RosNode(domain, connect)) as node:
            typer.echo(f"the node 'cosim' of ROS domain {domain} has the run at {address}")
            try:
                goals = Goals(node, partial(command, *door, "go"), note) if control else None
                bridge(address, node, folder=folder, token=given.strip(), goals=goals)
            except KeyboardInterrupt:
                note("stopped; the run goes on")
            else:
                note("the run has ended")
