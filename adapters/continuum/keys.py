"""Events that the continuum brings: another scheduler, and components of applications that come, go and multiply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from cosim.adapters.continuum.check import misses
from cosim.contract import plugins
from cosim.contract.block import EventKey
from cosim.contract.entities import Scene
from cosim.contract.errors import SetupError
from cosim.contract.trust import Words
from cosim.schedulers import BUILTIN, SchedulerError, of_files, scheduler


class SetScheduler(EventKey):
    """Another scheduler decides from now on. It starts without what it would have learnt before."""

    TARGET: ClassVar[Literal["node", "link", ""]] = ""
    do: Literal["set-scheduler"]
    scheduler: Words = Field(description="a name that `cosim schedulers` lists for continuum")

    def refusal(self, config: Any, nodes: Sequence[str]) -> str:  # noqa: ANN401 - `ContinuumConfig`
        if ":" in self.scheduler:
            return "a scheduler that comes during a run has a name: install it as a plugin, or name it in the adapter"
        if self.node is not None or self.link is not None:
            return "a scheduler decides for all nodes: remove 'node' and 'link'"
        if config.decide is not None or config.threads > 1:
            return f"the scheduler stays while the adapter has '{'threads' if config.decide is None else 'decide'}'"
        try:
            scheduler(self.scheduler).for_continuum()
        except SchedulerError as error:
            return str(error)
        if config.deciding is not None and config.deciding.takes == "measured" and self.scheduler in BUILTIN:
            return "the time of a scheduler that is a part of the engine cannot be measured, see 'deciding'"
        files = of_files(config.scheduler)
        return "policy files place the tasks; use 'deploy', 'remove' or 'scale'" if files else ""

    def unfit(self, config: Any, scene: Scene, nodes: Sequence[str], root: Path) -> str:  # noqa: ANN401
        if not scene.workloads:
            return "the scenario has no workloads, about whose tasks a scheduler decides"
        return next((one.message for one in misses(scene, self.scheduler) if one.fatal), "")


class _Placing(EventKey):
    component: Words = Field(description="name of the component: that of its workload")

    def refusal(self, config: Any, nodes: Sequence[str]) -> str:  # noqa: ANN401 - `ContinuumConfig`
        return "" if of_files(config.scheduler) else "only the scheduler 'mlsysops' has components at nodes"

    def unfit(self, config: Any, scene: Scene, nodes: Sequence[str], root: Path) -> str:  # noqa: ANN401
        try:
            agents = plugins.load("agents", config.scheduler)
        except SetupError:  # which the check of the scheduler reports
            return ""
        known = sorted(agents.components(getattr(config, config.scheduler), scene, root))
        if self.component not in known:
            return f"there is no component '{self.component}': there is {', '.join(known) or 'none'}"
        able = {node.id for node in scene.nodes if node.cores > 0}
        idle = [name for name in nodes if name not in able]
        return f"'{idle[0]}' has no cpu, so it holds no component" if idle and not isinstance(self, Remove) else ""


class Deploy(_Placing):
    """A component is also at these nodes."""

    do: Literal["deploy"]


class Remove(_Placing):
    """A component is no longer at these nodes."""

    do: Literal["remove"]


class ScaleComponent(_Placing):
    """A component is at `count` of these nodes; those that have it keep it, then the first of the others get it."""

    do: Literal["scale"]
    count: Annotated[int, Field(ge=0)] = Field(description="nodes")


PLACING = (Deploy, Remove, ScaleComponent)
