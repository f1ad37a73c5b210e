"""For what SUMO's adapter refuses a scene."""

from __future__ import annotations

import math
import os
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cosim.adapters.sumo import install
from cosim.adapters.sumo.config import SumoConfig, option
from cosim.adapters.sumo.inputs import opened, seconds
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, ScenarioError, SetupError
from cosim.contract.hints import did_you_mean, no_file

_Files = Literal["routes", "additional"]
FAR = 50.0  # km
_NAMED: tuple[_Files, ...] = ("additional", "routes")  # SUMO reads them in this order
_ROOTS = {"network": ("net",), "routes": ("routes", "additional"), "config": ("sumoConfiguration", "configuration")}
CLASSES = (  # https://sumo.dlr.de/docs/Definition_of_Vehicles,_Vehicle_Types,_and_Routes.html
    "passenger", "private", "emergency", "authority", "army", "vip", "hov", "taxi", "bus", "coach", "delivery",
    "truck", "trailer", "motorcycle", "moped", "bicycle", "evehicle", "pedestrian", "wheelchair", "scooter", "tram",
    "rail_urban", "rail", "rail_electric", "rail_fast", "ship", "container", "cable_car", "subway", "aircraft",
    "drone", "custom1", "custom2", "ignoring",
)  # fmt: skip
_INPUTS = {  # options of a configuration that name files, and the key of the block that replaces them
    "net-file": "", "n": "", "route-files": "routes", "r": "routes", "additional-files": "additional",
    "a": "additional", "load-state": "", "weight-files": "", "w": "", "lane-weight-files": "",
}  # fmt: skip
KILOMETRES = 111.2  # per degree of latitude
MEMORY = 14.0  # B of SUMO per B of a network's XML: networks of 17 and 108 MB took 0.23 and 1.47 GB


def problems(config: SumoConfig, context: Context) -> list[Problem]:
    """A scene without exactly one fleet for the vehicles, steps that SUMO cannot make, files that are not there."""
    missing = list(_files(config, context))
    found = [
        *_fleets(context),
        *_steps(config, context),
        *_options(config, context),
        *_classes(config, context),
        *missing,
    ]
    if missing:
        return found
    more = (_configured, _took, _far, _driven)
    return [*found, *(problem for part in more for problem in part(config, context))]


def _fleets(context: Context) -> Iterator[Problem]:
    fleets = [fleet for fleet in context.scene.fleets if fleet.adapter == context.name]
    if len(fleets) != 1:
        found = ", ".join(fleet.name for fleet in fleets) or "none"
        yield Problem(
            f"needs one fleet for its vehicles, found {found}",
            path=f"adapters.{context.name}",
            hint=f"write under nodes:  cars: {{kind: vehicle, fleet: {context.name}}}",
        )


def _steps(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """SUMO's steps are whole milliseconds and fill the period."""
    period, resolution = context.period, config.resolution or context.period
    milliseconds = round(resolution * 1000)
    at = f"adapters.{context.name}.resolution" if config.resolution is not None else f"adapters.{context.name}"
    if milliseconds < 1 or abs(resolution * 1000 - milliseconds) > 1e-6:
        yield Problem(f"SUMO counts in whole milliseconds, not in steps of {resolution:g} s", path=at)
    ratio = period / resolution
    if ratio < 1 - 1e-9 or abs(ratio - round(ratio)) > 1e-9:
        text = f"SUMO's step of {resolution:g} s does not divide the adapter's step of {period:g} s"
        yield Problem(text, path=at)


def _options(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """Options that the installed SUMO refuses, in its own words."""
    if not config.options:
        return
    try:
        program = install.binary("sumo")
    except SetupError:
        return  # what the adapter requires is reported apart
    if _refused(program, []):
        return  # it does not start here, whatever its options
    given = {name: option(name, value) for name, value in config.options.items()}
    if not _refused(program, [word for words in given.values() for word in words]):
        return
    for name, words in given.items():
        if why := _refused(program, words):
            hint = "`sumo --help` lists all options"
            yield Problem(f"SUMO refuses it: {why}", f"adapters.{context.name}.options.{name}", hint=hint)


def _refused(program: Path, words: list[str]) -> str:
    """Why SUMO does not take these words of its command line, in its own; "" when it does."""
    command = [str(program), *words, "--save-configuration", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, env=install.environment(), timeout=30.0)
    return (
        "" if said.returncode == 0 else " ".join(said.stderr.split()).removeprefix("Error: ").partition(" Error: ")[0]
    )


def _files(config: SumoConfig, context: Context) -> Iterator[Problem]:
    named: list[tuple[str, str | None]] = [("config", config.config), ("network", config.network)]
    named += [(key, text) for key in _NAMED for text in config.files(key)]
    for key, text in named:
        try:
            if text is None:
                continue
            file = file_of(text, context)
            if no_file(file) is not None:
                raise ScenarioError(Problem(f"there is no file {file}"))
            if key != "additional" and _root(file) not in _ROOTS[key]:
                hint = f"a file for '{key}' begins with <{_ROOTS[key][0]}>"
                raise ScenarioError(Problem(f"{file.name} is no file of that kind", hint=hint))
        except ScenarioError as error:
            yield from (replace(one, path=f"adapters.{context.name}.{key}") for one in error.problems)


def _configured(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """What a configuration names and is not there, or would make SUMO wait for others; and warnings of what it sets
    and the adapter overrides, and of files that it writes."""
    if config.config is None:
        return
    file, given = file_of(config.config, context), _given(config, context)
    at, resolution = f"adapters.{context.name}", config.resolution or context.period
    for name, ours in _INPUTS.items():
        replaced = bool(ours and getattr(config, ours)) or name in config.options
        for text in [] if replaced else [part.strip() for part in given.get(name, "").split(",") if part.strip()]:
            if no_file(file.parent / text) is not None:
                yield Problem(f"its {name} names {text}, and there is no such file", f"{at}.config")
    port, clients = given.get("remote-port"), given.get("num-clients", "1")
    if (port and not config.over_traci) or clients != "1":
        text = f"with its {'num-clients' if clients != '1' else 'remote-port'} SUMO would wait for another program"
        hint = "take it out; a SUMO that runs already is named by 'server'"
        yield Problem(text, f"{at}.config", hint=hint)
    begin = _begin(config, context)
    if 0.0 <= seconds(end := given.get("end", given.get("e", "-1"))) < begin + context.duration:
        text = f"its end of {end} has no effect: SUMO goes on as long as the run"
        yield Problem(text, f"{at}.config", hint="set run.duration", fatal=False)
    for name in ("random", "abs-rand"):
        if _on(given.get(name, "")):
            text = "its 'random' is switched off: a run is the same again under its seed"
            yield Problem(text, f"{at}.config", hint="take another run.seed for another run", fatal=False)
    seed = given.get("seed", given.get("srand"))
    if seed is not None and config.seed is None:
        text = f"its seed {seed} has no effect: SUMO's seed is drawn from run.seed"
        yield Problem(text, f"{at}.config", hint=f"write  seed: {seed}", fatal=False)
    length = given.get("step-length", "")
    step = seconds(length) if length else resolution
    if math.isnan(step):
        return  # SUMO reports it better
    if step != resolution:
        text = f"its step-length of {length} s has no effect: SUMO's steps are {resolution:g} s"
        yield Problem(text, f"{at}.config", hint=f"write  resolution: {step:g} s", fatal=False)
    written = [value for name, value in given.items() if name.endswith("-output") and value]
    if written:
        text = f"it writes {', '.join(written[:4])} at its place in every run, and so does each of several at once"
        yield Problem(text, f"{at}.config", hint="leave its outputs out, and record signals", fatal=False)


def _on(text: str) -> bool:
    """Whether SUMO takes the value of an option as true."""
    return text.lower() in ("true", "yes", "on", "x", "t", "1")


def _given(config: SumoConfig, context: Context) -> dict[str, str]:
    """The options that the configuration's file sets; none where it cannot be read, which SUMO reports better."""
    from xml.etree import ElementTree

    try:
        tree = ElementTree.parse(file_of(config.config, context)) if config.config is not None else None
    except (OSError, ElementTree.ParseError):
        return {}
    return {} if tree is None else {one.tag: v for one in tree.iter() if (v := one.get("value", one.get("v")))}


def _took(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """What the files of routes have; entries that SUMO leaves out, and those at which it would stop the run."""
    from cosim.adapters.sumo.journeys import RouteFiles  # needs arrays

    at, given, network = f"adapters.{context.name}", _given(config, context), net_of(config, context)
    with suppress(OSError, EOFError, zlib.error):  # SUMO reports it better
        if network is not None:
            with opened(network) as stream:
                size = stream.seek(0, os.SEEK_END)  # unpacked
            text = f"'{network.name}' is a network of {size / 1e6:.3g} MB"
            yield Problem(text, at, fatal=False, note=True, memory=MEMORY * size)
    ignored = _on(str(config.options.get("ignore-route-errors", given.get("ignore-route-errors", ""))))
    begin, files = _begin(config, context), RouteFiles(None if ignored else network)
    for key, (text, file) in [(k, one) for k in _NAMED for one in _named(config, context, k).items()]:
        found = files.read(file, begin, begin + context.duration)
        if found.astray:
            more = f", and {len(found.astray) - 1} more cannot drive theirs" * (len(found.astray) > 1)
            hint = "mend the route or the network, or write  options: {ignore-route-errors: true}"
            where = f"{at}.{key if config.files(key) else 'config'}"
            yield Problem(f"in '{text}' {found.astray[0]}{more}", where, hint=hint)
        if key == "additional":
            continue
        first, last = min(found.departs, default=math.nan), max(found.departs, default=math.nan)
        what = ", ".join(f"{n} {name}{'s' * (n > 1)}" for name, n in found.counts.items()) or "no vehicle"
        last_text = "on" if math.isinf(last) else f"to {last:g} s"
        span = "" if math.isnan(first) else f", which depart from {first:g} s {last_text}"
        yield Problem(f"'{text}' has {what}{span}", at, fatal=False, note=True)
        for what, number in (+found.faults).items():
            yield Problem(f"{number} entries of '{text}' {what}", at, fatal=False)
        if last < begin or first >= begin + context.duration:
            message = f"all of '{text}' departs from {first:g} s {last_text}, and the run is {begin:g} s to "
            hint = f"write  begin: {first:g} s"
            yield Problem(f"{message}{begin + context.duration:g} s of SUMO's time", at, hint=hint, fatal=False)


def _begin(config: SumoConfig, context: Context) -> float:
    """SUMO's time (s) at time 0 of the run."""
    given = _given(config, context)
    return seconds(given.get("begin", given.get("b", "0"))) if config.begin is None else config.begin


def _named(config: SumoConfig, context: Context, key: _Files) -> dict[str, Path]:
    """The files under `key`, else those of the configuration, by what they are called there."""
    files = {text: file_of(text, context) for text in config.files(key)}
    if files or config.config is None:
        return files
    given, folder = _given(config, context), file_of(config.config, context).parent
    words = given.get(f"{key.removesuffix('s')}-files", given.get(key[0], "")).split(",")
    return {text.strip(): folder / text.strip() for text in words if text.strip()}


def _root(file: Path) -> str:
    """The outermost element of an XML file; "" when it has none."""
    from xml.etree import ElementTree

    try:
        with opened(file) as stream:
            return next((element.tag for _, element in ElementTree.iterparse(stream, ("start",))), "")
    except (OSError, EOFError, zlib.error, ElementTree.ParseError):
        return ""


def _classes(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """A warning of classes that no vehicle has: nothing would join the fleet."""
    for index, name in enumerate(config.classes or ()):
        if name not in CLASSES:
            at = f"adapters.{context.name}.classes.{index}"
            yield Problem(f"'{name}' is no vehicle class of SUMO", at, hint=did_you_mean(name, CLASSES), fatal=False)


def _far(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """A warning when vehicles would be far from the scenario's origin."""
    geo, text = context.scene.geo, config.network or config.config
    if geo is None or text is None:
        return
    bounds = bounds_of(file_of(text, context))
    if bounds is None:
        return
    west, south, east, north = bounds
    longitude, latitude = min(max(geo.longitude, west), east), min(max(geo.latitude, south), north)
    away = math.hypot(latitude - geo.latitude, (longitude - geo.longitude) * math.cos(math.radians(geo.latitude)))
    if away * KILOMETRES > FAR:
        message = f"the net of SUMO begins {away * KILOMETRES:,.0f} km from the scenario's origin"
        hint = f"its middle is geo: {{origin: [{(south + north) / 2:.4f}, {(west + east) / 2:.4f}]}}"
        yield Problem(message, f"adapters.{context.name}", hint=hint, fatal=False)


def _driven(config: SumoConfig, context: Context) -> Iterator[Problem]:
    """A network on which the trips of `demand` have nowhere to go. One whose routes are kept is not read again."""
    if config.demand is None or config.network is None:
        return
    from cosim.adapters.sumo import demand  # needs arrays

    network = file_of(config.network, context)
    if demand.kept(network, config.demand, config.begin or 0.0).is_file():
        return
    try:
        onward = demand.onward_of(demand.read_net(network), "passenger")
    except (ImportError, OSError):
        return  # what the adapter requires is reported apart
    except demand.UNREADABLE as error:
        yield Problem(f"is no network that can be read: {error!r}", f"adapters.{context.name}.network")
        return
    if not onward or len(demand.largest_component(onward)) < 2:
        yield Problem(demand.NOWHERE, f"adapters.{context.name}.demand", hint="take a larger map, or write 'routes'")


def bounds_of(file: Path) -> tuple[float, float, float, float] | None:
    """West, south, east and north (deg) of a net, or of that of a configuration; None: it is on no map."""
    from xml.etree import ElementTree

    try:
        with opened(file) as stream:
            for _, element in ElementTree.iterparse(stream, ("start",)):
                if element.tag == "net-file" and (file.parent / element.get("value", "")).is_file():
                    return bounds_of(file.parent / element.get("value", ""))
                if element.tag == "edge":
                    return None  # the location stands before the edges
                if element.tag == "location" and element.get("projParameter", "!") != "!":
                    west, south, east, north = (float(number) for number in element.get("origBoundary", "").split(","))
                    return west, south, east, north
    except (OSError, EOFError, ValueError, zlib.error, ElementTree.ParseError):
        return None  # SUMO reports it better
    return None


def net_of(config: SumoConfig, context: Context) -> Path | None:
    """The network file that the block or its configuration names, as far as that can be determined."""
    if config.network is not None:
        return file_of(config.network, context)
    given = _given(config, context)
    named = given.get("net-file", given.get("n"))
    return None if named is None or config.config is None else file_of(config.config, context).parent / named


def file_of(text: str, context: Context) -> Path:
    """The file that a key of the block names. Raises `ScenarioError` for one of a package that there is not."""
    return install.package_file(text) if text.startswith(install.PREFIX) else context.path(text)
