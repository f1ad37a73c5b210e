"""Stand-ins in a run for what policy files import of the machine and of the framework.

| import | in a run |
|---|---|
| `time`, `datetime` | the run's clock, from the year 2000 (UTC) on; sleeping takes no time and is logged |
| `random` | a stream of the policy's own, from the run's seed |
| `asyncio` | the real one, whose `sleep` takes no time |
| `mlsysops.logger_util`, `mlsysops.utilities` | a logger; conditions and intervals |
| `mlstelemetry` | `MLSTelemetry`, whose metrics are those of simulated nodes; what is pushed goes nowhere |
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import operator
import random
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

log = logging.getLogger("cosim.mlsysops")

EPOCH = 946_684_800.0  # s, 2000-01-01 00:00 UTC: time 0 of a run by the clock that policies see
_RELATIONS = {
    "lower_or_equal": operator.le, "greater_or_equal": operator.ge, "equal": operator.eq,
    "lower_than": operator.lt, "greater_than": operator.gt,
}  # fmt: skip

Measured = Callable[[str, str], list[dict[str, Any]]]  # metric, node ("": any) -> samples {value, node_name}


class PolicyClock:
    """Simulated time, as policies see it. `slept` is what they wanted to wait in all, s."""

    def __init__(self) -> None:
        self.now = 0.0  # s of the run
        self.slept = 0.0

    def time(self) -> float:
        """s since 1970."""
        return EPOCH + self.now

    def sleep(self, duration: float) -> None:
        """Take no time, and warn once that a policy wanted to sleep."""
        if not self.slept:
            log.warning("a policy sleeps %g s; in simulated time this takes no time", float(duration))
        self.slept += max(0.0, float(duration))


def modules(clock: PolicyClock, measured: Measured, seed: int | str) -> dict[str, ModuleType]:
    """Modules by the names under which a policy file imports them."""
    logger = _module("mlsysops.logger_util", {"logger": _logger()})
    utilities = _module("mlsysops.utilities", {"evaluate_condition": evaluate_condition})
    framework = _module("mlsysops", {"logger_util": logger, "utilities": utilities})
    return {
        "time": _time(clock),
        "datetime": _datetime(clock),
        "random": _random(seed),
        "asyncio": _asyncio(clock),
        "mlsysops": framework,
        "mlsysops.logger_util": logger,
        "mlsysops.utilities": utilities,
        "mlstelemetry": _module("mlstelemetry", {"MLSTelemetry": _telemetry(measured)}),
    }


def evaluate_condition(a: Any, b: Any, relation: str) -> bool:  # noqa: ANN401 - whatever a policy compares
    """Whether `a` stands in `relation` to `b`. Raises `ValueError` for a relation that is none."""
    if relation not in _RELATIONS:
        raise ValueError(f"'{relation}' is no relation; known: {', '.join(_RELATIONS)}")
    return bool(_RELATIONS[relation](a, b))


def _module(name: str, contents: Mapping[str, object]) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(contents)
    return made


def _copy(module: ModuleType, changed: Mapping[str, object]) -> ModuleType:
    return _module(module.__name__, {**vars(module), **changed})


def _logger() -> logging.Logger:
    """A logger of its own kind: the framework's has a level `test`, and its callers format carelessly."""

    class PolicyLogger(logging.Logger):
        def handle(self, record: logging.LogRecord) -> None:
            try:
                record.getMessage()
            except (TypeError, ValueError):
                record.msg, record.args = f"{record.msg} {record.args}", None
            super().handle(record)

        def test(self, message: object, *arguments: object) -> None:
            self.debug(message, *arguments)

    made = PolicyLogger("cosim.mlsysops.policy", logging.WARNING)
    made.parent = logging.getLogger("cosim.mlsysops")
    return made


def _time(clock: PolicyClock) -> ModuleType:
    def at(moment: float | None) -> float:
        return clock.time() if moment is None else moment

    def text(form: str, moment: time.struct_time | tuple[int, ...] | None = None) -> str:
        return time.strftime(form, time.gmtime(clock.time()) if moment is None else moment)  # type: ignore[arg-type]

    return _copy(time, {
        "time": clock.time, "time_ns": lambda: round(clock.time() * 1e9),
        "monotonic": lambda: clock.now, "monotonic_ns": lambda: round(clock.now * 1e9),
        "perf_counter": lambda: clock.now, "perf_counter_ns": lambda: round(clock.now * 1e9),
        "sleep": clock.sleep, "gmtime": lambda moment=None: time.gmtime(at(moment)),
        "localtime": lambda moment=None: time.gmtime(at(moment)),
        "ctime": lambda moment=None: time.asctime(time.gmtime(at(moment))), "strftime": text,
    })  # fmt: skip


def _datetime(clock: PolicyClock) -> ModuleType:
    class SimulatedDate(datetime.date):
        @classmethod
        def today(cls) -> SimulatedDate:
            return cls.fromordinal(datetime.datetime.fromtimestamp(clock.time(), datetime.UTC).toordinal())

    class SimulatedDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> SimulatedDatetime:
            found = cls.fromtimestamp(clock.time(), tz or datetime.UTC)
            return found if tz is not None else found.replace(tzinfo=None)

        @classmethod
        def utcnow(cls) -> SimulatedDatetime:
            return cls.now()

        @classmethod
        def today(cls) -> SimulatedDatetime:
            return cls.now()

    return _copy(datetime, {"datetime": SimulatedDatetime, "date": SimulatedDate})


def _random(seed: int | str) -> ModuleType:
    stream = random.Random(seed)
    names = [name for name in vars(random) if not name.startswith("_") and hasattr(stream, name)]
    return _copy(random, {name: getattr(stream, name) for name in names if callable(getattr(stream, name))})


def _asyncio(clock: PolicyClock) -> ModuleType:
    async def sleep(delay: float, result: object = None) -> object:
        clock.sleep(delay)
        return result

    return _copy(asyncio, {"sleep": sleep})


def _telemetry(measured: Measured) -> type:
    class MLSTelemetry:
        """The framework's client: reads metrics of simulated nodes, and pushes nowhere."""

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def get_metric_value_with_label(
            self, metric_name: str, label_name: str | None = None, label_value: str | None = None, **_: object
        ) -> list[dict[str, Any]]:
            """Samples of a metric; a label other than the node's name fits none."""
            if label_name not in (None, "node_name", "service_hostname"):
                return []
            return measured(metric_name, label_value or "")

        def __getattr__(self, name: str) -> Callable[..., None]:
            if not name.startswith("push"):
                raise AttributeError(f"MLSTelemetry has no '{name}' in a simulation")
            return lambda *_, **__: None

    return MLSTelemetry
