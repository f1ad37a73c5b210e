"""Read a scenario: the file becomes a checked `Scenario`, or one error with every mistake in it.

    loaded = load("scenarios/hello", ["run.seed=7"])

Nothing is started here, and of the adapters only the configuration models of those in use are
imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.functions import search_in
from cosim.contract.hints import did_you_mean, no_file
from cosim.contract.trust import distrust, distrusting, files_in
from cosim.scenario import tree
from cosim.scenario.checks import check
from cosim.scenario.gather import gather, scenario_file, split
from cosim.scenario.model import BUILT_IN_EVENTS, NodeBlock, Scenario, scenario_with
from cosim.scenario.parameters import as_written, filled
from cosim.scenario.resolve import ResolvedNodes
from cosim.scenario.tree import Item, Keys
from cosim.scenario.wording import found, problems_of, shorten

if TYPE_CHECKING:
    from cosim.contract.adapter import AdapterKind
    from cosim.contract.block import EventKey, NodeKey


@dataclass(frozen=True)
class UsedAdapter:
    """An adapter of the scenario: its kind, under which name or place that is found, and its checked configuration."""

    use: str
    kind: AdapterKind
    config: BaseModel


@dataclass(frozen=True)
class Loaded:
    """A scenario that passed every check, and where each of its values was written."""

    scenario: Scenario
    path: Path  # of the scenario file
    files: tuple[Path, ...]  # every file that was read, the scenario file first
    adapters: Mapping[str, UsedAdapter]  # in the order of the file
    world: ResolvedNodes
    root: Item  # with parameters put in
    source: Item  # as it was written, after includes and overrides

    @cached_property
    def data(self) -> dict[str, Any]:
        """The scenario after includes and overrides, with its parameters put in, as plain data."""
        data: dict[str, Any] = tree.plain(self.root)
        return data

    @cached_property
    def text(self) -> str:
        """The scenario after includes and overrides, as YAML; parameters stay parameters."""
        return tree.dump(tree.plain(self.source))

    def place(self, path: str | Keys) -> tree.SourcePlace:
        """File, line and column of the value at `path`, for example ``nodes.uav-1.battery``."""
        return tree.place(self.root, split(self.root, path) if isinstance(path, str) else path)

    def problem(self, path: str | Keys, message: str, hint: str = "", *, fatal: bool = True) -> Problem:
        """A mistake at `path`, to be raised in a `ScenarioError`. A node may be named by its id."""
        keys = split(self.root, path) if isinstance(path, str) else path
        where = keys
        if len(keys) > 1 and keys[0] == "nodes" and keys[1] in self.world.names:
            where = ("nodes", self.world.names[str(keys[1])], *keys[2:])
        found = tree.problem(self.root, where, message, hint)
        return replace(found, path=tree.dotted(keys), fatal=fatal)

    def variant(self, assignments: Mapping[str, Item]) -> Draft:
        """The scenario with values put at dotted paths."""
        root = self.source
        for path, value in assignments.items():
            root = tree.put(root, split(root, as_written(root, path)), value)
        entries = {key: child for key, child in root.value.items() if key != "sweep"}
        return examine(self.path, self.files, Item(entries, root.place, root.keys), [])


def load(path: str | Path, overrides: Sequence[str] = ()) -> Loaded:
    """The scenario at `path` (a file, or a folder with a `scenario.cosim.yaml`), checked.

    `overrides` are ``a.b=value`` texts with YAML values. Raises `ScenarioError` with all mistakes.
    Modules beside the scenario file can be imported from now on.
    """
    return read(path, overrides).whole()


@dataclass(frozen=True)
class Draft:
    """A scenario as far as it could be read, and what is wrong with it.

    `loaded` lacks what is wrong; it is good for finding further mistakes, and for nothing else. None when
    nothing sensible is left.
    """

    loaded: Loaded | None
    files: tuple[Path, ...]
    problems: tuple[Problem, ...]

    def whole(self) -> Loaded:
        """The scenario. Raises `ScenarioError` when anything is wrong with it."""
        if self.problems or self.loaded is None:
            raise ScenarioError(in_order(self.problems, self.files))
        return self.loaded

    def covers(self, problem: Problem) -> bool:
        """Whether `problem` may only be there because something that is wrong was left out."""
        if not self.problems:
            return False
        parts = problem.path.split(".")
        if len(parts) < 2 or _covered(problem, _broken(list(self.problems))):
            return True
        wrong = {one.path.split(".")[0] for one in self.problems}
        if self._left_out.intersection(re.findall(r"'[^']*'|[\w.-]+", problem.message)):
            return True
        if (
            parts[0] == "adapters"
            and len(parts) == 2
            and "adapters" in wrong
            and "which no adapter defines" in problem.message
        ):
            return True  # the adapter that would define the signal was left out
        used = self.loaded.adapters.get(parts[1]) if parts[0] == "adapters" and self.loaded is not None else None
        if used is not None and any(not used.kind.node.keys().isdisjoint(one.path.split(".")) for one in self.problems):
            return True  # the adapter looked at nodes without a key of its own that cannot be read
        if parts[0] == "workloads" and parts[2:] == ["from"] and not wrong.isdisjoint(("links", "adapters")):
            return True  # sources without a way to a host: it may be that of the link or the radio that is wrong
        about_nodes = not wrong.isdisjoint(("", "nodes", "kinds", "groups", "defaults"))
        return about_nodes and not (parts[0] in ("run", "sweep") or (parts[0] == "adapters" and len(parts) > 2))

    @cached_property
    def _left_out(self) -> set[str]:
        """How messages name the blocks that are wrong, in quotes, and the nodes that have one."""
        paths = [one.path.split(".") for one in self.problems]
        wrong = {".".join(path[1:end]) for path in paths if path[0] == "nodes" for end in range(2, len(path) + 1)}
        kinds = {path[1] for path in paths if path[0] == "kinds" and len(path) > 1}
        nodes = self.loaded.world.everything if self.loaded is not None else ()
        ids = {node.id for node in nodes if node.block.kind in kinds or node.key in wrong}
        blocks = {f"'{path[1]}'" for path in paths if path[0] in ("adapters", "workloads") and len(path) > 1}
        ids |= wrong
        return ids | {f"'{name}'" for name in ids} | blocks


def in_order(problems: Sequence[Problem], files: Sequence[Path]) -> list[Problem]:
    """`problems` by file, line and column, each once."""
    order = {name: index for index, name in enumerate(files)}
    return sorted(
        dict.fromkeys(problems),
        key=lambda p: (order.get(p.file, len(order)) if p.file else -1, p.line or 0, p.column or 0),
    )


def read(path: str | Path, overrides: Sequence[str] = ()) -> Draft:
    """The scenario at `path` as far as it can be read. Raises `ScenarioError` when there is no such file."""
    file = scenario_file(path)
    problems: list[Problem] = []
    root, files = gather(file, overrides, problems)
    return Draft(None, files, tuple(problems)) if root is None else examine(file, files, root, problems)


def examine(file: Path, files: tuple[Path, ...], root: Item, problems: list[Problem]) -> Draft:
    """The scenario in `root`, which was read from `files` and has these `problems` already."""
    search_in(file.parent)
    source = _nothing_is_empty(root)
    root = filled(source, problems)
    if distrusting():
        from cosim.scenario.untrusted import beyond_data

        distrust()  # wherever the variable comes from
        if reaching := beyond_data(root, files, file.parent):
            return Draft(None, files, (*problems, *reaching))
    known: dict[str, AdapterKind] = {}
    adapters = _adapters(root, file.parent, problems, known)
    scenario = _model(root, _model_of(root, known, problems), problems)
    if scenario is None:
        return Draft(None, files, tuple(problems))
    broken = _broken(problems)
    later: list[Problem] = []
    kinds = {name: used.kind for name, used in adapters.items()}
    configs = {name: used.config for name, used in adapters.items()}
    world = check(scenario, root, kinds, configs, later, folder=file.parent, certain=not problems)
    problems += [found for found in later if not _covered(found, broken)]
    return Draft(Loaded(scenario, file, files, adapters, world, root, source), files, tuple(problems))


def _nothing_is_empty(root: Item) -> Item:
    """Adapters, kinds and nodes without any key (`sumo:`) are empty mappings."""
    for block in ("adapters", "kinds", "nodes"):
        entries = root.value.get(block)
        for name, child in list(entries.value.items()) if entries and isinstance(entries.value, dict) else []:
            if child.value is None:
                root = tree.put(root, (block, name), Item({}, entries.keys.get(name, child.place)))
    return root


def _model_of(root: Item, adapters: Mapping[str, AdapterKind], problems: list[Problem]) -> type[Scenario]:
    """The model of a scenario with adapters of these kinds, which may bring keys of nodes and events."""
    keys: dict[str, type[NodeKey]] = {}
    events: dict[str, type[EventKey]] = {}
    for name, kind in {kind.name: (name, kind) for name, kind in adapters.items()}.values():
        for key, block in kind.node_keys().items():
            if keys.setdefault(key, block) is not block or key in NodeBlock.model_fields:
                problems.append(tree.problem(root, ("adapters", name), f"brings '{key}' for nodes, which is taken"))
        for do, event in kind.event_kinds().items():
            if events.setdefault(do, event) is not event or do in BUILT_IN_EVENTS:
                problems.append(tree.problem(root, ("adapters", name), f"brings the event '{do}', which is taken"))
    free = {key: block for key, block in keys.items() if key not in NodeBlock.model_fields}
    own = sorted(events.keys() - BUILT_IN_EVENTS.keys())
    return scenario_with(tuple(sorted(free.items())), tuple(events[do] for do in own))


def _model(root: Item, model: type[Scenario], problems: list[Problem]) -> Scenario | None:
    """The scenario in `root`; when parts of it are wrong, what remains without them, if anything does.

    What remains is good enough for finding further mistakes, and for nothing else.
    """
    data = tree.plain(root)
    for attempt in range(4):
        try:
            return model.model_validate(data, by_alias=True, by_name=False)
        except ValidationError as error:
            found = [_with_bringer(one) for one in problems_of(error, model, root, ())] if attempt == 0 else []
            problems += found
            if not _prune(data, error):
                return None
    return None


def _with_bringer(problem: Problem) -> Problem:
    """`problem`, with the adapter that would know the key, if it is an unknown one of a node."""
    top, _, key = problem.path.partition(".")[0], 0, problem.path.rpartition(".")[2]
    if top not in ("defaults", "kinds", "groups", "nodes") or problem.message != f"unknown key '{key}'":
        return problem
    from cosim.contract import registry

    found = [one.name for one in registry.list_adapters() if one.kind is not None and key in one.kind.node]
    hint = f"it comes with the adapter '{found[0]}': add  {found[0]}: {{}}  to 'adapters'" if found else problem.hint
    return replace(problem, hint=hint)


_NEEDED: dict[str, Any] = {"apiVersion": "cosim/v1", "kind": "Scenario", "name": "x"}


def _prune(data: Any, error: ValidationError) -> bool:  # noqa: ANN401 - YAML data
    """Take what is wrong out of `data`; False when nothing sensible would be left."""
    items: dict[tuple[str, int], None] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        top, *rest = detail["loc"]
        if top in ("nodes", "adapters") and (not rest or len(data[top]) == 1 == len(rest)):
            return False
        if top in _NEEDED:
            data[top] = _NEEDED[str(top)]
        elif top == "run":
            data["run"] = {"duration": "1 s"}
        elif rest and isinstance(rest[0], int) and isinstance(data.get(top), list):
            items[str(top), rest[0]] = None
        elif rest and isinstance(data.get(top), dict):
            entry = data[top].get(rest[0])
            inner = rest[1] if len(rest) > 1 and detail["type"] != "missing" else None
            if not (isinstance(entry, dict) and entry.pop(inner, None) is not None):
                data[top].pop(rest[0], None)
                if top == "nodes" and isinstance(rest[0], str):
                    data[top][rest[0]] = {}  # others may refer to its name
        else:
            data.pop(top, None)
    for name, index in sorted(items, reverse=True):
        del data[name][index]
    return True


def _broken(problems: list[Problem]) -> set[str]:
    return {".".join(problem.path.split(".")[:2]) for problem in problems if problem.path}


def _covered(problem: Problem, broken: set[str]) -> bool:
    """Whether the entry that `problem` is about is known to be wrong already."""
    return ".".join(problem.path.split(".")[:2]) in broken


def _adapters(
    root: Item, folder: Path, problems: list[Problem], known: dict[str, AdapterKind]
) -> dict[str, UsedAdapter]:
    """Kind and configuration of every adapter in the scenario that is right.

    `known` gets the kinds also of those whose configuration is wrong: what they bring for nodes is not unknown.
    """
    entries = root.value.get("adapters")
    if entries is None or not isinstance(entries.value, dict):
        return {}
    adapters = {}
    for name, block in entries.value.items():
        if isinstance(block.value, dict):  # anything else is a problem that the model has reported
            used = _adapter(root, name, tree.plain(block), problems, known)
            if used is not None:
                adapters[name] = used
                _files(root, name, used, folder, problems)
    return adapters


def _files(root: Item, name: str, used: UsedAdapter, folder: Path, problems: list[Problem]) -> None:
    """The files that an adapter's configuration names are there."""
    if getattr(used.config, "connect", None):
        return
    for at, text in dict(files_in(type(used.config), used.config)).items():
        hint = None if text.startswith("package:") else no_file(folder / text)
        if hint is not None:
            problems.append(tree.problem(root, ("adapters", name, *at), f"there is no file '{shorten(text)}'", hint))


def _adapter(
    root: Item, name: str, block: dict[str, Any], problems: list[Problem], known: dict[str, AdapterKind]
) -> UsedAdapter | None:
    from cosim.contract import registry

    at: Keys = ("adapters", name)
    use = block.get("use") or name
    where: Keys = (*at, "use") if "use" in block else at
    if not isinstance(use, str):
        problems.append(tree.problem(root, where, f"expected the name of an adapter, found {found(use)}"))
        return None
    try:
        kind = registry.adapter_kind(use)
        model = kind.load_config()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign adapter may fail in any way
        if use in registry.adapter_names() or registry.is_place(use):
            text, hint = f"adapter '{use}' cannot be used: {error}", "try 'cosim doctor'"
        else:
            hint = did_you_mean(use, registry.adapter_names(), otherwise="installed")
            text = f"there is no adapter '{shorten(use)}'"
        problems.append(tree.problem(root, where, text, hint))
        return None
    known[name] = kind
    try:
        return UsedAdapter(use, kind, model.model_validate(block, by_alias=True, by_name=False))
    except ValidationError as error:
        problems += problems_of(error, model, root, at)
        return None
