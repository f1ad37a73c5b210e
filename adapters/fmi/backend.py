"""Units on disk, and instances of them, by FMPy."""

from __future__ import annotations

import logging
import math
import re
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What values a type has, and the ending of the functions that read and write it.
TEXT = "String"
_NUMBERS = {"2": {"Real": "Real", "Integer": "Integer", "Enumeration": "Integer", "Boolean": "Boolean"},
            "3": {name: name for name in ("Float64", "Float32", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32",
                                          "Int64", "UInt64", "Boolean")} | {"Enumeration": "Int64"}}  # fmt: skip
log = logging.getLogger(__name__)
_LARGEST = 1 << 32  # B, of a unit when it is unpacked
_PER_VARIABLE, _PER_INSTANCE = 1.8e3, 110e3  # B, as measured with units of PythonFMU


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
    given: bool = True  # its start value may be: it is no constant, and the unit does not work it out
    low: float = -math.inf  # what it takes, by its type and by the unit's description
    high: float = math.inf

    def refusal(self, value: float | str) -> str:
        """Why it cannot be given this value, or ""."""
        if not self.ending:
            return "is no single number"
        if not self.given:
            return "has no start value that can be given: the unit works it out"
        if isinstance(value, str) != (self.ending == TEXT):
            return f"takes {'text' if self.ending == TEXT else 'a number or true or false'}, not {value!r}"
        if isinstance(value, str):
            return ""
        if self.ending == "Boolean" and value not in (0, 1):
            return f"is true or false, not {value!r}"
        if self.whole and value != round(value):
            return f"takes whole numbers, not {value!r}"
        return "" if self.low <= value <= self.high else f"takes {self.low:.17g} to {self.high:.17g}, not {value!r}"

    @property
    def whole(self) -> bool:
        """Whether it has whole numbers only."""
        return "Int" in self.ending


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
    size: int  # B, unpacked

    def memory(self, count: int) -> float:
        """B that `count` instances take, without what the unit's own code asks for."""
        return self.size + _PER_VARIABLE * len(self.variables) + _PER_INSTANCE * count

    def settable(self, name: str) -> bool:
        """Whether a value may be handed over while it runs."""
        one = self.variables[name]
        return one.causality == "input" or (one.causality == "parameter" and one.variability == "tunable")


def read_unit(file: Path, scratch: Path, *, validate: bool = True) -> ModelUnit:
    """The unit in `file`; one is made in `scratch` of a Python file. Raises `UnitFaultError`.

    `validate` holds its description against the standard.
    """
    from fmpy import platform, platform_tuple, read_model_description, sharedLibraryExtension, supported_platforms

    if file.suffix == ".py":
        file = _made(file, scratch)
    try:
        with zipfile.ZipFile(file) as archive:
            if (size := sum(one.file_size for one in archive.infolist())) > _LARGEST:
                raise ValueError(f"unpacked it would be {size / 1e9:.3g} GB")
            if damaged := archive.testzip():
                raise ValueError(f"'{damaged}' in it is damaged")
            there = set(archive.namelist())
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
        if one.name in variables:
            raise UnitFaultError(f"has two variables '{one.name}'")
        variables[one.name] = _variable(one, version)
    token = said.guid if version == "2" else said.instantiationToken
    kind = said.coSimulation
    if not token or not kind.modelIdentifier:
        raise UnitFaultError("names no modelIdentifier or no guid (instantiationToken), by which it is instantiated")
    library = f"{kind.modelIdentifier}{sharedLibraryExtension}"
    if not {f"binaries/{name}/{library}" for name in (platform, platform_tuple)} & there:
        names = ", ".join(platforms) or "none"
        source = " (it has its source: python -m fmpy compile UNIT)" if "c-code" in platforms else ""
        raise UnitFaultError(f"has no binary for {platform_tuple}, {library}; its platforms: {names}{source}")
    tool = (said.generationTool or "its tool") if kind.needsExecutionTool else ""
    tool = "" if tool.startswith("PythonFMU") else tool  # Python, which is here
    once = bool(kind.canBeInstantiatedOnlyOncePerProcess)
    return ModelUnit(file, version, said.modelName, kind.modelIdentifier, token, once, tool, platforms, variables, size)


def _variable(said: Any, version: str) -> Variable:  # noqa: ANN401 - the package has no types
    """A variable as the unit's description has it. Raises `UnitFaultError` where its bounds are no numbers."""
    ending = _NUMBERS[version].get(said.type, TEXT if said.type == TEXT else "")
    causality, variability = said.causality or "local", said.variability or ""
    usual = "exact" if causality in ("input", "parameter", "structuralParameter") else "calculated"
    given = (said.initial or usual) != "calculated" and variability != "constant" and causality != "independent"
    low, high = -math.inf, math.inf
    if sized := re.fullmatch(r"(U?)Int(?:eger)?(\d*)", ending):
        bits = int(sized[2] or 32)
        low, high = (0.0, 2.0**bits - 1) if sized[1] else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)
    of_type = said.declaredType
    try:
        least, most = (getattr(said, name) or getattr(of_type, name, None) for name in ("min", "max"))
        low, high = max(low, float(least or -math.inf)), min(high, float(most or math.inf))
    except ValueError as error:
        raise UnitFaultError(f"bounds '{said.name}' by what is no number: {error}") from error
    return Variable(
        said.name, causality, variability, said.valueReference, "" if getattr(said, "dimensions", None) else ending,
        said.unit or getattr(of_type, "unit", None) or "", given, low, high,
    )  # fmt: skip


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
        self._outside: set[str] = set()  # inputs that had values beyond their bounds

    def open(self, params: dict[str, float | int | bool | str]) -> None:
        """Instantiate all and leave initialisation, with `params` as start values. Raises `UnitFaultError`."""
        from fmpy.fmi2 import FMU2Slave
        from fmpy.fmi3 import FMU3Slave

        kind = FMU2Slave if self._unit.version == "2" else FMU3Slave
        for number in range(self._count):
            slave = self._call(
                kind, instanceName=f"{self._unit.name}-{number}", guid=self._unit.token,
                unzipDirectory=str(self._folder), modelIdentifier=self._unit.identifier,
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
            self._set(slave, self._unit.variables[name], value)

    def set(self, number: int, name: str, value: float) -> None:
        """Hand a value over, rounded where whole ones are taken, as true where it is not 0 and that is asked for.

        Raises `UnitFaultError` for a whole number that the variable does not take.
        """
        one = self._unit.variables[name]
        if one.ending == "Boolean":
            value = value != 0
        elif one.whole and math.isfinite(value):
            value = round(value)
        if refusal := one.refusal(value):
            if one.whole:
                raise UnitFaultError(f"'{name}' {refusal}")
            if name not in self._outside:
                self._outside.add(name)
                log.warning("%s: '%s' %s; it is handed over as it is", self._unit.name, name, refusal)
        self._set(self._slaves[number], one, value)

    def _set(self, slave: Any, one: Variable, value: float | str) -> None:  # noqa: ANN401
        kind = str if one.ending == TEXT else bool if one.ending == "Boolean" else int if one.whole else float
        self._call(getattr(slave, f"set{one.ending}"), [one.reference], [kind(value)])

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
