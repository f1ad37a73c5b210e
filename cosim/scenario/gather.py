"""From a path and overrides to one tree: the file, what it includes, and `--set` on top."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.functions import without_extension
from cosim.contract.hints import did_you_mean, nearest, no_file
from cosim.contract.plugins import folder_of, installed
from cosim.scenario.model import Scenario
from cosim.scenario.parameters import BLOCK, as_written
from cosim.scenario.reading import read_file, read_text
from cosim.scenario.tree import Item, Keys, SourcePlace, at, dotted, merge, plain, problem, put
from cosim.scenario.wording import found, keys_of, shorten

FILE = "scenario.cosim.yaml"  # what a scenario's folder holds
MOST_FILES = 100
SET = Path("--set")  # what problems of overrides name as their file

_EXTENDED = ("defaults", "kinds", "groups", "nodes", "events")  # adapters bring keys; the model knows them later
_NAMED = ("adapters", "kinds", "groups", "nodes", "workloads")  # mappings whose keys are the author's


def scenario_file(path: str | Path) -> Path:
    """The scenario file that `path` means: a file, a folder with a `scenario.cosim.yaml`, or a name of `shipped`."""
    path = Path(path)
    try:
        if len(path.parts) == 1 and not path.exists():
            path = shipped().get(path.name, path)
        if path.is_dir():
            if (path / FILE).is_file():
                return path / FILE
            inside = sorted(child.parent.name for child in path.glob(f"*/{FILE}"))
            hint = f"scenarios in it: {', '.join(inside[:30])}" if inside else "name the file of the scenario"
            raise ScenarioError(Problem(f"folder has no {FILE}", file=path, hint=hint))
        if path.is_file():
            return path
        if path.exists():
            raise ScenarioError(Problem("is not an ordinary file", file=path))
        raise ScenarioError(Problem("there is no such file or folder", file=path, hint=_neighbour(path)))
    except (OSError, ValueError) as error:  # too long a name, a loop of links, a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(Problem(f"'{shorten(str(path))}' is not a usable path: {reason}")) from None


def _neighbour(path: Path) -> str:
    """What the author may have meant instead of `path`."""
    if path.name in shipped() and not Path("scenarios", path.name).exists():
        return f"it comes with the package: name it '{path.name}', or copy it, cosim new --from {path.name}"
    if belongs := without_extension(installed("scenarios").get(path.name, "")):
        return belongs
    folders = [path.parent, Path("scenarios")]
    known = [str(file.parent) for folder in folders for file in sorted(folder.glob(f"*/{FILE}"))]
    known += [*map(str, sorted(path.parent.glob("*.yaml"))), *shipped()]
    near = nearest(str(path), known) or next((name for name in known if Path(name).name == path.name), "")
    return f"did you mean '{near}'?" if near else ""


def shipped() -> dict[str, Path]:
    """The folders of the scenarios that come with this package and with other installed ones, by name.

    Ours are in the folder `scenarios` beside the package, or in `cosim/gallery` of an installation. Those of others are
    in the folder `scenarios` of the package that the entry-point group ``cosim.scenarios`` names.
    """
    package = Path(__file__).resolve().parents[1]
    gallery = package / "gallery"
    ours = gallery if gallery.is_dir() else package.parent / "scenarios"
    places = {name: folder_of(package) for name, package in installed("scenarios").items()}
    found = {name: folder / "scenarios" / name for name, folder in places.items() if folder}
    found |= {file.parent.name: file.parent for file in ours.glob(f"*/{FILE}")}
    return {name: found[name] for name in sorted(found)}


def gather(file: Path, overrides: Sequence[str], problems: list[Problem]) -> tuple[Item | None, tuple[Path, ...]]:
    """The tree of `file` with its includes and `overrides`, and every file that was read.

    No tree when a file cannot be read or does not hold a mapping; `problems` then has the reason.
    """
    files: dict[Path, None] = {}
    root = _with_includes(file, (), files, problems)
    if root is None:
        return None, tuple(files)
    for text in overrides:
        root = _override(root, text, problems)
    return root, tuple(files)


def _with_includes(
    file: Path, chain: tuple[Path, ...], files: dict[Path, None], problems: list[Problem]
) -> Item | None:
    files[file] = None
    root = read_file(file, problems)
    if root is None:
        return None
    if not isinstance(root.value, dict):
        what = "is empty" if root.value is None else f"expected a mapping of keys, found {found(plain(root))}"
        problems.append(Problem(what, "", file, 1, 1, "start with 'apiVersion: cosim/v1'"))
        return None
    below: Item | None = None
    complete = True
    for index, name in enumerate(_includes(root, problems)):
        target = file.parent / name
        keys: Keys = ("include", index)
        seen = (*chain, file)
        if any(target.resolve() == other.resolve() for other in seen):
            way = " -> ".join(str(other) for other in (*seen, target))
            problems.append(problem(root, keys, f"files include each other: {way}", "remove one of the includes"))
        elif os.path.isdir(target):  # noqa: PTH112 - no error where a name is too long
            problems.append(problem(root, keys, f"'{shorten(name)}' is a folder", "name a file"))
        elif "://" in name:
            problems.append(
                problem(root, keys, f"'{shorten(name)}' is no file", "copy it beside the scenario, and name it")
            )
        elif (hint := no_file(target)) is not None:
            problems.append(problem(root, keys, f"there is no file '{shorten(name)}' in {target.parent}", hint))
        elif len(files) >= MOST_FILES:
            problems.append(problem(root, keys, f"more than {MOST_FILES} files are included"))
        else:
            part = _with_includes(target, seen, files, problems)
            if part is not None:
                below = part if below is None else merge(below, part)
                continue
        complete = False
    entries = {key: child for key, child in root.value.items() if key != "include"}
    own = Item(entries, root.place, root.keys)
    return (own if below is None else merge(below, own)) if complete else None


def _includes(root: Item, problems: list[Problem]) -> list[str]:
    names = plain(root.value["include"]) if "include" in root.value else []
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name and "\0" not in name for name in names):
        problems.append(problem(root, ("include",), "expected a list of file names", "for example [../common.yaml]"))
        return []
    return names


def _override(root: Item, text: str, problems: list[Problem]) -> Item:
    """`root` with one ``a.b=value`` applied."""
    name, equals, written = text.partition("=")
    name = name.strip()
    if not equals or not name:
        problems.append(Problem(f"'{shorten(text)}' sets nothing", "", SET, hint="write --set run.seed=7"))
        return root
    read: list[Problem] = []
    value = read_text(written, SET, read)
    if value is None or read:
        problems.append(Problem(f"value '{shorten(written)}' is not YAML", name, SET, hint="quote it"))
        return root
    keys = split(root, as_written(root, name))
    wrong = unknown(root, keys, Scenario)
    if wrong is not None and not (keys[0] in _EXTENDED and len(keys) > 1 and wrong[0].startswith("unknown key")):
        problems.append(Problem(wrong[0], name, SET, hint=wrong[1]))
        return root
    if keys[0] == BLOCK and len(keys) == 2 and at(root, keys) is None:
        known = plain(root.value[BLOCK]) if BLOCK in root.value else {}
        hint = did_you_mean(str(keys[1]), known, otherwise="parameters") or f"the scenario has no block '{BLOCK}'"
        problems.append(Problem(f"there is no parameter '{shorten(str(keys[1]))}'", name, SET, hint=hint))
        return root
    return put(root, keys, _placed(value))


def _placed(item: Item) -> Item:
    """`item` without lines, which an override does not have."""
    where = SourcePlace(SET)
    if isinstance(item.value, dict):
        entries = {key: _placed(child) for key, child in item.value.items()}
        return Item(entries, where, dict.fromkeys(entries, where))
    if isinstance(item.value, list):
        return Item([_placed(child) for child in item.value], where)
    return Item(item.value, where)


def split(root: Item, name: str) -> Keys:
    """The keys that the dotted `name` stands for; keys that hold dots are found as they are in `root`."""
    parts, keys, item = re.split(r"(?<!\.)\.(?!\.)", name), list[str | int](), root  # not at the dots of [1..3]
    while parts:
        if isinstance(item.value, list) and parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 9:
            index = int(parts.pop(0))
            keys.append(index)
            item = item.value[index] if index < len(item.value) else Item(None, item.place)
            continue
        entries = item.value if isinstance(item.value, dict) else {}
        length = next((n for n in range(len(parts), 1, -1) if ".".join(parts[:n]) in entries), 1)
        keys.append(".".join(parts[:length]))
        del parts[:length]
        item = entries.get(keys[-1], Item(None, item.place))
    return tuple(keys)


def unknown(root: Item, keys: Keys, model: object) -> tuple[str, str] | None:
    """Why `keys` cannot be set (message and hint), or None when they can.

    The keys of a block come from `model`; the names of nodes, adapters and so on from `root`.
    Below an adapter's name nothing is known here.
    """
    item: Item | None = root
    for index, key in enumerate(keys):
        way, last = keys[:index], index == len(keys) - 1
        entries = item.value if item is not None and isinstance(item.value, (dict, list)) else {}
        if isinstance(entries, list):
            if not isinstance(key, int) or key >= len(entries):
                return f"{dotted(way)} has no entry '{key}'", f"it has {len(entries)}, counted from 0"
            item = entries[key]
            continue
        known = keys_of(model, way)
        if known is not None and key not in known:
            return f"unknown key '{shorten(str(key))}'", did_you_mean(str(key), known)
        if way and way[0] in _NAMED and len(way) == 1 and key not in entries and not last:
            one = str(way[0]).removesuffix("s")
            return f"there is no {one} '{shorten(str(key))}'", did_you_mean(str(key), entries)
        if known is None and way and item is not None and item.value is not None and not isinstance(item.value, dict):
            return f"{dotted(way)} has no keys", f"it is {found(plain(item))}"
        item = entries.get(str(key))
    return None


def unknown_option(keys: Keys, configs: Mapping[str, BaseModel]) -> tuple[str, str] | None:
    """Why `keys`, which lead into an adapter's block, name no option of it (message and hint)."""
    if keys[0] != "adapters" or len(keys) < 3 or keys[1] not in configs:
        return None
    for index in range(2, len(keys)):
        known = keys_of(type(configs[str(keys[1])]), keys[2:index])
        if known is not None and keys[index] not in known:
            return f"unknown key '{keys[index]}'", did_you_mean(str(keys[index]), known)
    return None
