"""A model's errors about wrong data, in words for the author of the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean, nearest
from cosim.scenario.tree import Item, Keys, plain, problem

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "path_type": "a path",
    "timezone_aware": "a time with its zone, as 2026-05-12T09:00:00+03:00",
    "datetime_parsing": "a time such as 2026-05-12T09:00:00+03:00",
    "datetime_from_date_parsing": "a time such as 2026-05-12T09:00:00+03:00",
    "datetime_type": "a time such as 2026-05-12T09:00:00+03:00",
}
_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}


_USE = re.compile(r"\$\{(\w+)\}", re.ASCII)
_CHOICE = re.compile(r"\^\(((?:[a-z][a-z0-9-]*\|?)+?)(\|\[A-Za-z_\].*)?\)\$")  # words, and perhaps module:function


def found(value: object) -> str:
    """`value` as an author sees it: ``the number 5``, ``a list``."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"'{shorten(value)}'" if value else "an empty text"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, (list, tuple)) else type(value).__name__


def shorten(text: str) -> str:
    """`text` short enough for one line of a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def keys_of(kind: object, way: Sequence[str | int] = ()) -> dict[str, object] | None:
    """The keys (with the types behind them) that a value of type `kind` has at `way`.

    None when that place holds no keys that are known beforehand: a free mapping, a scalar, text.
    """
    kinds = _options(kind)
    for part in way:
        kinds = [option for kind in kinds for option in _below(kind, part)]
    for option in kinds:
        if isinstance(option, type) and issubclass(option, BaseModel):
            return _fields(option)
    return None


def _fields(model: type[BaseModel]) -> dict[str, object]:
    return {info.alias or name: (info.annotation, info.metadata) for name, info in model.model_fields.items()}


def _options(kind: object, metadata: Sequence[object] = ()) -> list[object]:
    """The types that `kind` may be, without those that are written as text."""
    if any(hasattr(mark, "__get_pydantic_core_schema__") for mark in metadata):
        return []  # a validator of its own reads it
    if isinstance(kind, tuple):
        return _options(*kind)
    origin = get_origin(kind)
    if origin is Annotated:
        base, *marks = get_args(kind)
        return _options(base, marks)
    if origin is Union or type(kind).__name__ == "UnionType":
        return [option for part in get_args(kind) for option in _options(part)]
    return [kind]


def _below(kind: object, part: str | int) -> list[object]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        below = _fields(kind).get(str(part))
        return _options(below) if below is not None else []
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return _options(arguments[1])
    return _options(arguments[0]) if get_origin(kind) in (list, tuple) and arguments else []


def problems_of(error: ValidationError, model: type[BaseModel], root: Item, prefix: Keys) -> list[Problem]:
    """Every mistake in `error`, which came from checking the value at `prefix` of `root` with `model`."""
    data: Any = plain(root)
    for part in prefix:
        data = data[part]
    groups: dict[Keys, list[Any]] = {}
    for detail in error.errors(include_url=False):
        groups.setdefault(_way(detail, data), []).append(detail)
    for way in [way for way, details in groups.items() if isinstance(details[0]["input"], dict)]:
        if any(len(other) > len(way) and other[: len(way)] == way for other in groups) and all(
            map(_is_text, groups[way])
        ):
            del groups[way]  # who wrote a mapping did not mean the text that does as well
    misspelt = {
        (*way[:-1], name)
        for way, details in groups.items()
        if details[0]["type"] == "extra_forbidden"
        if (name := nearest(str(way[-1]), keys_of(model, way[:-1]) or {}))
    }
    return [
        _problem(details, way, model, root, prefix)
        for way, details in groups.items()
        if not (details[0]["type"] == "missing" and way in misspelt)  # the hint at the other key covers it
    ]


def _is_text(detail: Any) -> bool:  # noqa: ANN401 - pydantic's ErrorDetails
    """Whether a mistake is that something is no text."""
    return detail["type"] in _EXPECTED or detail["msg"].endswith("found dict")


def _way(detail: Any, data: Any) -> Keys:  # noqa: ANN401 - pydantic's ErrorDetails
    """The keys that lead to the mistake, without pydantic's notes on which type it was trying."""
    way: list[str | int] = []
    location = detail["loc"]
    for index, part in enumerate(location):
        last = index == len(location) - 1
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if inside:
            data = data[part]
        elif not (last and detail["type"] == "missing"):
            continue
        way.append(part)
    return tuple(way)


def _problem(details: list[Any], way: Keys, model: type[BaseModel], root: Item, prefix: Keys) -> Problem:
    detail, at = details[0], prefix + way
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if len(details) > 1:
        wanted = dict.fromkeys(_EXPECTED.get(d["type"], "") for d in details)
        if all(wanted):
            return problem(root, at, f"expected {' or '.join(wanted)}, found {found(value)}")
        inner = [d for d in details if d["type"] not in _EXPECTED]
        kind, value, context, detail = inner[0]["type"], inner[0]["input"], inner[0].get("ctx", {}), inner[0]
    if kind == "extra_forbidden":
        known = keys_of(model, way[:-1]) or {}
        hint = (
            "within { }, text with a comma needs quotes; a decimal has a point, as 2.5"
            if str(at[-1])[:1].isdigit()
            else did_you_mean(str(at[-1]), known)
        )
        return problem(root, at, f"unknown key '{at[-1]}'", hint, key=True)
    if kind == "missing":
        return problem(root, at, f"key '{at[-1]}' is missing", _description(model, way), key=True)
    if "[key]" in detail["loc"] and kind == "literal_error":
        hint = did_you_mean(str(value), _words(context), otherwise="possible")
        return problem(root, at, f"unknown key '{shorten(str(value))}'", hint, key=True)
    if "[key]" in detail["loc"]:
        return problem(
            root, at, f"'{shorten(str(value))}' is not a name", "a letter, then letters, digits, . _ -", key=True
        )
    if kind == "literal_error":
        hint = did_you_mean(str(value), _words(context), otherwise="possible")
        return problem(root, at, f"{found(value)} is not possible here", hint)
    if kind == "union_tag_invalid":  # one word of a list decides what the rest is
        key, words = str(context["discriminator"]).strip("'"), _words({"expected": context["expected_tags"]})
        hint = did_you_mean(str(context["tag"]), words, otherwise="possible")
        return problem(root, (*at, key), f"'{shorten(str(context['tag']))}' is not possible here", hint)
    if kind == "union_tag_not_found":
        return problem(root, at, f"key {context['discriminator']} is missing", _description(model, way))
    if kind == "string_pattern_mismatch":
        return problem(
            root, at, f"{found(value)} does not have the right form", _form(context.get("pattern", ""), value)
        )
    if kind in ("int_type", "int_from_float") and _is_huge(value):
        kind = "int_parsing_size"
    if kind in _EXPECTED:
        hint = _shape(_EXPECTED[kind], value) or _description(model, way)
        return problem(root, at, f"expected {_EXPECTED[kind]}, found {found(value)}", hint)
    if kind in _LIMITS:
        limit, key = _LIMITS[kind]
        return problem(root, at, f"must be {limit} {context[key]}, found {found(value)}")
    if kind in ("too_short", "too_long"):
        limit = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        noun = "entry" if limit.endswith(" 1") else "entries"
        # pydantic stops counting a mapping that is too long
        return problem(root, at, f"needs {limit} {noun}, found {context.get('actual_length') or len(value)}")
    message = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    use = _USE.search(value) if isinstance(value, str) else None  # of a parameter that there is none of
    hint = f"there is no parameter '{use[1]}'" if use else ""
    return problem(root, at, message if kind == "value_error" else message[:1].lower() + message[1:], hint)


def _is_huge(value: object) -> bool:
    """Whether a whole number was written with more digits than the reader takes for one."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) >= 1e18
    return isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{19,}", value, re.ASCII) is not None


def _shape(expected: str, value: object) -> str:
    """How entries are written, where a list was given for a mapping or the other way round."""
    if expected == "a mapping" and isinstance(value, list):
        return "write 'name: {...}' for each entry, without '-'"
    if expected == "a list" and isinstance(value, dict):
        return "begin each entry with '- '"
    return ""


def _words(context: Any) -> list[str]:  # noqa: ANN401 - pydantic's
    """The values that a literal allows."""
    return [word.strip("' ") for word in str(context.get("expected", "")).replace(" or ", ", ").split(", ")]


def _form(pattern: str, value: object) -> str:
    words = _CHOICE.fullmatch(pattern)
    if words is not None:
        names = words[1].split("|")
        hint = did_you_mean(str(value), names, otherwise="possible")
        return f"{hint}, or module:function" if words[2] and not hint.endswith("?") else hint
    forms = {
        r"^[a-z0-9][a-z0-9-]{0,62}$": "small letters, digits and '-', at most 63",
        r"^[a-z0-9][A-Za-z0-9._/:@-]{0,199}$": "the name of a container image, in small letters and without spaces",
        r"^#[0-9a-fA-F]{6}$": "write a colour as '#rrggbb'",
        r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$": "a letter, then letters, digits, . _ -",
    }
    return forms.get(pattern, f"expected the form {pattern}")


def _description(model: type[BaseModel], way: Keys) -> str:
    """The model's description of the key at `way`, "" when it has none."""
    owner: object = model
    for part in way[:-1]:
        below = [option for kind in _options(owner) for option in _below(kind, part)]
        owner = below[0] if below else None
    for option in _options(owner):
        if isinstance(option, type) and issubclass(option, BaseModel) and way:
            for name, info in option.model_fields.items():
                if way[-1] in (name, info.alias):
                    return info.description or ""
    return ""
