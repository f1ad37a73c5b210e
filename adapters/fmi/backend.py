"""Units on disk, and instances of them, by FMPy."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What values a type has, and the ending of the functions that read and write it.
TEXT = "String"
_NUMBERS = {"2": {"Real": "Real", "Integer": "Integer", "Enumeration": "Integer", "Boolean": "Boolean"},
            "3": {name: name for name in ("Float64", "Float32", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32",
                                          "Int64", "UInt64", "Boolean")} | {"Enumeration": "Int64"}}  # fmt: skip


class UnitFaultError(Exception):
    """The unit cannot be read, or one of its functions failed."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A scalar of the unit."""

    name: str
    causality: str
    variability: str
    reference: int
    ending: str  # of the functions that read and write it; "" for what is no single value
    unit: str = ""  # as the unit's description has it


@dataclass(frozen=True)
class ModelUnit:
    """The entries of a unit's model description that are needed here."""

    file: Path
    version: str  # "2" or "3"
    name: str
    identifier: str
    token: str
    once: bool  # at most one instance in a process
    tool: str  # that must be installed, "" for none
    platforms: tuple[str, ...]  # of its binaries
    variables: dict[str, Variable]

    def settable(self, name: str) -> bool:
        """Whether a value may be handed over while it runs."""
        one = self.variables[name]
        return one.causality == "input" or (one.causality == "parameter" and one.variability == "tunable")


def read_unit(file: Path, scratch: Path, *, validate: bool = True) -> ModelUnit:
    """The unit in `file`; one is made in `scratch` of a Python file. Raises `UnitFaultError`.

    `validate` holds its description against the standard.
    """
    from fmpy import platform, platform_tuple, read_model_description, supported_platforms

    if file.suffix == ".py":
        file = _made(file, scratch)
    try:
        said = read_model_description(str(file), validate=validate)
        platforms = tuple(supported_platforms(str(file)))
    except Exception as error:  # a file of anybody's may fail in any way
        lines = [line.strip("- ") for line in str(error).splitlines() if line.strip()]
        hint = " (validate: false takes it as it is)" if validate and "validate" in str(error) else ""
        raise UnitFaultError(f"cannot be read: {' '.join(lines[:4]) or repr(error)}{hint}") from error
    version = str(said.fmiVersion)[:1]
    if version not in _NUMBERS:
        raise UnitFaultError(f"is of FMI {said.fmiVersion}; units of FMI 2 and 3 can be used")
    if said.coSimulation is None:
        raise UnitFaultError("is for model exchange only; export it for co-simulation")
    variables = {}
    for one in said.modelVariables:
        ending = _NUMBERS[version].get(one.type, TEXT if one.type == TEXT else "")
        ending = "" if getattr(one, "dimensions", None) else ending
        variables[one.name] = Variable(
            one.name, one.causality or "local", one.variability or "", one.valueReference, ending,
            one.unit or getattr(one.declaredType, "unit", None) or "",
        )  # fmt: skip
    token = said.guid if version == "2" else said.instantiationToken
    if not {platform, platform_tuple} & {*platforms}:
        there = ", ".join(platforms) or "none"
        source = " (it has its source: python -m fmpy compile UNIT)" if "c-code" in platforms else ""
        raise UnitFaultError(f"has no binary for {platform_tuple}; its platforms: {there}{source}")
    kind = said.coSimulation
    tool = (said.generationTool or "its tool") if kind.needsExecutionTool else ""
    tool = "" if tool.startswith("PythonFMU") else tool  # Python, which is here
    once = bool(kind.canBeInstantiatedOnlyOncePerProcess)
    return ModelUnit(file, version, said.modelName, kind.modelIdentifier, token, once, tool, platforms, variables)


def _made(source: Path, scratch: Path) -> Path:
    from pythonfmu3 import FmuBuilder

    try:
        made = FmuBuilder.build_FMU(str(source), dest=str(scratch))
    except Exception as error:
        raise UnitFaultError(f"no unit can be made of it: {error}") from error
    return Path(made)


class Instances:
    """Instances of a unit, as many as there are nodes; they have one time."""

    def __init__(self, unit: ModelUnit, count: int, scratch: Path) -> None:
        from fmpy import extract

        self._unit = unit
        self._slaves: list[Any] = []
        self._folder = Path(extract(str(unit.file), unzipdir=str(scratch / "unit")))
        self._count = count

    def open(self, params: dict[str, float | int | bool | str]) -> None:
        """Instantiate all and leave initialisation, with `params` as start values. Raises `UnitFaultError`."""
        from fmpy.fmi2 import FMU2Slave
        from fmpy.fmi3 import FMU3Slave

        kind = FMU2Slave if self._unit.version == "2" else FMU3Slave
        for number in range(self._count):
            slave = kind(
                instanceName=f"{self._unit.name}-{number}", guid=self._unit.token, unzipDirectory=str(self._folder),
                modelIdentifier=self._unit.identifier,
            )  # fmt: skip
            self._call(slave.instantiate)
            self._slaves.append(slave)
            if self._unit.version == "2":
                self._call(slave.setupExperiment, startTime=0.0)
                self._start(slave, params)
                self._call(slave.enterInitializationMode)
            else:
                self._start(slave, params)
                self._call(slave.enterInitializationMode, startTime=0.0)
            self._call(slave.exitInitializationMode)

    def _start(self, slave: Any, params: dict[str, float | int | bool | str]) -> None:  # noqa: ANN401
        for name, value in params.items():
            one = self._unit.variables[name]
            self._call(getattr(slave, f"set{one.ending}"), [one.reference], [_as(one.ending, value)])

    def set(self, number: int, name: str, value: float) -> None:
        one = self._unit.variables[name]
        self._call(getattr(self._slaves[number], f"set{one.ending}"), [one.reference], [_as(one.ending, value)])

    def step(self, time: float, length: float) -> None:
        """Take all from `time` over `length` (s)."""
        for slave in self._slaves:
            self._call(slave.doStep, time, length)

    def get(
        self, groups: Sequence[tuple[str, Sequence[int]]], into: Sequence[Any], places: Sequence[Sequence[int]]
    ) -> None:
        """Read variables of all instances: `groups` by type, `places[g][k]` the array in `into` for variable k."""
        for number, slave in enumerate(self._slaves):
            for (ending, references), targets in zip(groups, places, strict=True):
                values = self._call(getattr(slave, f"get{ending}"), references)
                for place, value in zip(targets, values, strict=True):
                    into[place][number] = value

    def close(self) -> None:
        """End all instances; may be called twice."""
        while self._slaves:
            slave = self._slaves.pop()
            for act in (slave.terminate, slave.freeInstance):
                try:
                    act()
                except Exception:  # noqa: BLE001 - a unit that has failed may refuse to end
                    continue
        shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, act: Any, *args: Any, **words: Any) -> Any:  # noqa: ANN401
        try:
            return act(*args, **words)
        except Exception as error:
            raise UnitFaultError(f"{act.__name__}: {error}") from error


def _as(ending: str, value: float | str) -> float | int | bool | str:
    if isinstance(value, str):
        return value
    if ending == "Boolean":
        return bool(value)
    return float(value) if ending in ("Real", "Float64", "Float32") else round(value)
