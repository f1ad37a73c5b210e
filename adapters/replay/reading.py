"""From a file to the trajectories that are replayed, in the scenario's frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cosim.adapters.replay.backend import UnreadableError, read
from cosim.adapters.replay.config import ReplayConfig
from cosim.adapters.replay.trajectories import Trajectories, TrajectorySamples
from cosim.contract.adapter import Context
from cosim.contract.entities import Geo
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.geo import LocalFrame


def trajectories(config: ReplayConfig, context: Context) -> Trajectories:
    """What the file of `config` holds. Raises `ScenarioError` when it cannot be replayed."""
    path = context.path(config.file)
    try:
        samples = read(path, dict[str, str](config.columns.items()), config.memory)
        return Trajectories(_located(samples, config, context.scene.geo))
    except (UnreadableError, ValueError) as error:
        raise ScenarioError(
            Problem(
                f"'{config.file}' cannot be replayed: {error}",
                path=f"adapters.{context.name}.file",
                file=path,
                line=error.line if isinstance(error, UnreadableError) else None,
                hint="" if path.exists() else "relative paths start at the scenario's folder",
            )
        ) from error


def moment(config: ReplayConfig, found: Trajectories, time: float) -> tuple[int, int]:
    """The moment in the file (ns) at simulated `time` (s), and how often the file was gone through before."""
    offset = config.offset - (found.begin if config.offset >= 1e8 else 0.0)  # or since 1970, as the file counts
    at, begin = round((offset + time * config.speed_up) * 1e9), round(offset * 1e9)
    _, last = found.span
    if not config.loop or last < begin:
        return at, 0
    lap, rest = divmod(at - begin, last - begin + max(found.spacing, 1))
    return begin + rest, lap


def _located(samples: TrajectorySamples, config: ReplayConfig, geo: Geo | None) -> TrajectorySamples:
    """The same samples with x, y, z in the scenario's frame."""
    columns = dict(samples.columns)
    if config.coordinates == "lon-lat" and "x" in columns:
        columns["lon"], columns["lat"] = columns.pop("x"), columns.pop("y")
    if "lat" not in columns:
        if "height" not in columns:
            return samples
        doubt = (
            "its heights have no effect beside x and y, whose height is z: name their column under 'columns: {z: ...}'"
        )
        taken = tuple(text for text in samples.taken if not text.startswith("height "))
        return replace(samples, taken=taken, doubts=(*samples.doubts, doubt))
    if geo is None:
        raise ValueError("positions are in degrees, but the scenario has no 'geo: {origin: [lat, lon]}'")
    lat, lon = columns.pop("lat"), columns.pop("lon")
    wrong = np.flatnonzero((np.abs(lat) > 90.0) | (np.abs(lon) > 180.0))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"latitude {lat[row]:g}, longitude {lon[row]:g} is no place on earth, sample {row + 1}")
    height = columns.pop("height", columns.pop("z", None))
    known = np.full(len(lat), geo.height) if height is None else height
    frame = LocalFrame(geo.latitude, geo.longitude, geo.height)
    columns["x"], columns["y"], columns["z"] = frame.to_local(lat, lon, known)
    return replace(samples, columns=columns)
