"""One policy file, loaded unmodified, with the run's clock and random numbers in place of the machine's.

Only the file's own imports are looked after, nothing of the process is changed: modules that it imports in turn have
the real `time`. What stands in for what is in `stand_ins`.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import logging
import re
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Literal

from cosim.contract.errors import error_line
from cosim.extensions.mlsysops.policies.stand_ins import Measured, PolicyClock, modules

log = logging.getLogger("cosim.mlsysops")

FUNCTIONS: Mapping[str, int] = {"initialize": 0, "analyze": 6, "plan": 6}  # and how many arguments they get
_ARGUMENTS = "context, application_description, system_description, mechanisms, telemetry, ml_connector"
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class PluginError(ValueError):
    """An invalid policy file, or an answer that no agent understands; the message states the fault and its place."""


def seconds(text: object, what: str) -> float:
    """The framework's intervals, as 5s, 10m, 2h or 1d, in s. `PluginError` for anything else."""
    match = _INTERVAL.fullmatch(str(text).strip())
    if match is None:
        raise PluginError(f"{what} is {text!r}; expected a number with s, m, h or d, as '5s'")
    return float(match[1]) * _SECONDS[match[2]]


class Plugin:
    """A policy of the framework. `context` is what it keeps from one call to the next.

    Raises `PluginError` for a file that cannot be read, run or initialised, or lacks a function.
    """

    def __init__(
        self, path: Path, clock: PolicyClock | None = None, measured: Measured | None = None, seed: int | str = 0
    ) -> None:
        self.name = path.stem.removeprefix("policy-")
        self.path = path
        self._modules = modules(clock or PolicyClock(), measured or (lambda *_: []), seed)
        self._space: dict[str, Any] = {
            "__name__": self.name.replace("-", "_"), "__file__": str(path),
            "__builtins__": {**vars(builtins), "__import__": self._import, "print": self._print},
        }  # fmt: skip
        try:
            source = path.read_text("utf-8")
            exec(compile(source, str(path), "exec", dont_inherit=True), self._space)
        except OSError as error:
            raise PluginError(f"'{path}' cannot be read: {error.strerror}") from error
        except SyntaxError as error:
            raise PluginError(f"{path}:{error.lineno}: {error.msg}") from error
        except (Exception, SystemExit) as error:  # a file of the user's may fail in any way
            raise PluginError(f"'{path}' cannot be loaded: {error_line(error)}") from error
        linecache.checkcache(str(path))
        self._signatures()
        self.context: dict[str, Any] = self._checked(self._called("initialize"), "initialize")
        self._known()

    # what the policy declares

    @property
    def scope(self) -> Literal["application", "global"]:
        """Whether it is asked about one application at a time or about all together."""
        return "global" if self.context.get("scope") == "global" else "application"

    @property
    def node(self) -> str:
        """The node that it is for, "" for any."""
        return str(self.context.get("node_name") or "")

    @property
    def mechanisms(self) -> list[str]:
        """What its plans are for, as it declares."""
        return [str(name) for name in self.context.get("mechanisms") or ()]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that it wants to see."""
        return [str(name) for name in self._part("telemetry").get("metrics") or ()]

    @property
    def scrape(self) -> float:
        """s between two samples of the metrics."""
        return seconds(self._part("telemetry").get("system_scrape_interval", "5s"), f"{self._at} scrape interval")

    @property
    def interval(self) -> float:
        """s between two analyses, as its context states now; 0: it is asked once."""
        return seconds(self._part("configuration")["analyze_interval"], f"{self._at} analyze_interval")

    def _part(self, key: str) -> Mapping[str, Any]:
        part = self.context.get(key) or {}
        return part if isinstance(part, Mapping) else {}

    # what it is asked

    def analyze(self, *arguments: object) -> bool:
        """Whether something is to be done, given all arguments but the context."""
        wanted, self.context = self._pair(self._called("analyze", self.context, *arguments), "analyze")
        return bool(wanted)

    def plan(self, *arguments: object) -> dict[str, Any]:
        """What is to be done: mechanism -> command."""
        found, self.context = self._pair(self._called("plan", self.context, *arguments), "plan")
        return self._checked(found, "plan") if found else {}

    def _called(self, name: str, *arguments: object) -> object:
        found = self._space[name](*arguments)
        return self._awaited(found, name) if inspect.iscoroutine(found) else found

    def _awaited(self, coroutine: Coroutine[Any, Any, object], name: str) -> object:
        """The result of what waits for nothing but the telemetry's queries, which answer at once."""
        try:
            coroutine.send(None)
        except StopIteration as done:
            result: object = done.value
            return result
        coroutine.close()
        raise PluginError(f"{self._at} {name} awaits something outside the run; only telemetry['query'] can be awaited")

    def _pair(self, found: object, name: str) -> tuple[Any, dict[str, Any]]:
        if not isinstance(found, tuple) or len(found) != 2:
            what = "(bool, context)" if name == "analyze" else "(plan, context)"
            raise PluginError(f"{self._at} {name} answered {type(found).__name__}; expected {what}")
        return found[0], self._checked(found[1], name)

    def _checked(self, found: object, name: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise PluginError(f"{self._at} {name} answered {type(found).__name__} where a dict is expected")
        return found

    # how it is loaded

    @property
    def _at(self) -> str:
        return f"policy '{self.path.name}':"

    def _signatures(self) -> None:
        for name, count in FUNCTIONS.items():
            found = self._space.get(name)
            if not callable(found):
                raise PluginError(f"'{self.path}' has no function '{name}'; a policy has {', '.join(FUNCTIONS)}")
            try:
                inspect.signature(found).bind(*[None] * count)
            except TypeError:
                expected = _ARGUMENTS if count else "no argument"
                raise PluginError(
                    f"{self._at} {name}{inspect.signature(found)} does not take what it gets: {expected}"
                ) from None

    def _known(self) -> None:
        """Hold the first context against what an agent reads of it."""
        if "analyze_interval" not in self._part("configuration"):
            raise PluginError(f"{self._at} the context has no configuration.analyze_interval, as '10s'")
        if self.context.get("scope") not in ("application", "global"):
            raise PluginError(f"{self._at} scope is {self.context.get('scope')!r}; expected 'application' or 'global'")
        for part, name in (("telemetry", "metrics"), ("", "mechanisms")):
            listed = (self._part(part) if part else self.context).get(name, [])
            if not isinstance(listed, (list, tuple)):
                raise PluginError(f"{self._at} {name} is a {type(listed).__name__}; expected a list of names")
        _ = self.interval, self.scrape

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as `__import__` has them
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> Any:  # noqa: ANN401 - a module
        """As `__import__`, with what stands in for modules of the machine and of the framework."""
        if level == 0 and name in self._modules:
            return self._modules[name if fromlist else name.partition(".")[0]]
        if level == 0 and name.partition(".")[0] in ("mlsysops", "mlstelemetry"):
            offered = ", ".join(sorted(known for known in self._modules if known.startswith("mls")))
            raise ImportError(f"'{name}' of the framework is not offered in a simulation; offered: {offered}")
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _print(self, *values: object, sep: str | None = " ", **_: object) -> None:
        """The terminal is not a policy's: what it prints is logged."""
        log.debug("%s %s", self._at, (" " if sep is None else sep).join(map(str, values)))
