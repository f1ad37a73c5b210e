"""Units of others in any form: what is made of them is right, refused or noted, and never a traceback."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

fmpy = pytest.importorskip("fmpy")
pytest.importorskip("pythonfmu")
pytest.importorskip("pythonfmu3")

from cosim.adapters.fmi.adapter import FmiAdapter  # noqa: E402
from cosim.adapters.fmi.backend import UnitFaultError, read_unit  # noqa: E402
from cosim.adapters.fmi.check import problems  # noqa: E402
from cosim.adapters.fmi.config import FmiConfig  # noqa: E402
from cosim.adapters.fmi.tests.test_fmi_adapter import context, tank  # noqa: E402, F401 - a fixture
from cosim.contract.adapter import Inputs  # noqa: E402
from cosim.contract.errors import AdapterError  # noqa: E402
from cosim.contract.frame import Frame  # noqa: E402
from tests.unit.sources.test_fuzz import each  # noqa: E402

LEVEL, AREA, FLOW = (
    re.compile(rf'<ScalarVariable name="{name}".*?</ScalarVariable>', re.DOTALL) for name in ("level", "area", "flow")
)
HEAD = re.compile("<fmiModelDescription[^>]*>")
# What is done to which part of a description: read alike (True), or refused or noted (False).
CHANGES = {
    "other blanks": (HEAD, lambda s: s.replace(" ", "\n  "), True),
    "order of attributes": (LEVEL, lambda s: re.sub(' (name=".*?") (val.*?) ', r" \2 \1 ", s), True),
    "a comment": (LEVEL, lambda s: f"<!-- {s} -->{s}", True),
    "bounds": (AREA, lambda s: s.replace("<Real", '<Real min="1" max="1e3"'), True),
    "a local": (LEVEL, lambda s: s.replace('causality="output"', 'causality="local"'), True),
    "another token": (HEAD, lambda s: re.sub('guid="([^"]*)"', r'guid="{\1}"', s), True),
    "twice": (LEVEL, lambda s: s + s, False),
    "another name": (LEVEL, lambda s: s.replace("level", "height"), False),
    "text": (LEVEL, lambda s: s.replace("<Real", "<String"), False),
    "a constant": (AREA, lambda s: s.replace('"fixed"', '"constant"'), False),
    "worked out": (AREA, lambda s: s.replace('"parameter"', '"calculatedParameter"'), False),
    "an output": (FLOW, lambda s: s.replace('"input"', '"output"'), False),
    "a whole number": (AREA, lambda s: s.replace('<Real start="2"', '<Integer start="2"'), False),
    "a truth": (AREA, lambda s: s.replace('<Real start="2"', '<Boolean start="true"'), False),
    "narrow bounds": (AREA, lambda s: s.replace("<Real", '<Real min="1" max="2"'), False),
    "bounds of words": (AREA, lambda s: s.replace("<Real", '<Real min="few"'), False),
    "another unit": (LEVEL, lambda s: s.replace("<Real", '<Real unit="cm"'), False),
    "no reference": (LEVEL, lambda s: s.replace(' valueReference="2"', ""), False),
    "a reference of words": (LEVEL, lambda s: s.replace('valueReference="2"', 'valueReference="two"'), False),
    "another version": (HEAD, lambda s: s.replace('"2.0"', '"1.0"'), False),
    "no version": (HEAD, lambda s: s.replace('fmiVersion="2.0"', ""), False),
    "no token": (HEAD, lambda s: re.sub('guid="[^"]*"', "", s), False),
    "no library": (re.compile("<CoSimulation[^>]*>"), lambda s: s.replace('modelIdentifier="Tank"', ""), False),
    "another library": (re.compile("<CoSimulation[^>]*>"), lambda s: s.replace('"Tank"', '"Tonne"'), False),
    "for exchange": (re.compile("<CoSimulation[^>]*>"), lambda s: "", False),
    "once": (re.compile("<CoSimulation[^>]*>"), lambda s: s.replace('PerProcess="false"', 'PerProcess="true"'), False),
}  # fmt: skip


def members(unit: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(unit) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes]) -> bytes:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return kept.getvalue()


def block(unit: Path, **keys: object) -> FmiConfig:
    outputs = [{"from": "level", "signal": "tank", "column": "level", "unit": "m"}]
    inputs = [{"signal": "rain", "column": "rate", "to": "flow"}]
    keys = {"nodes": "kind:edge", "params": {"area": 2.5}, "inputs": inputs, "outputs": outputs, **keys}
    return FmiConfig.model_validate({"unit": str(unit), **keys})


def level(config: FmiConfig, folder: Path, rate: float = 1.0) -> float:
    """What the first node's tank holds after 2 s of a rate (m3/s)."""
    one = FmiAdapter(config)
    try:
        one.start(context(folder, folder))
        slots = one._slots
        for time in range(3):
            rain = Frame("rain", float(time), slots, {"rate": np.full(len(slots), rate)})
            (frame,) = one.step(float(time), Inputs({"rain": [rain]}))
        return float(frame["level"][0])
    finally:
        one.close()


@each
@given(st.data())
def test_other_descriptions(tmp_path_factory, tank, data):  # noqa: F811
    parts, folder = members(tank), tmp_path_factory.mktemp("f")
    text = parts["modelDescription.xml"].decode()
    chosen = data.draw(
        st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=2, unique_by=lambda name: CHANGES[name][0])
    )
    alike = True
    for name in chosen:
        part, change, same = CHANGES[name]
        alike &= same
        text = part.sub(lambda found, change=change: change(found[0]), text, count=1)
    unit = folder / "u.fmu"
    unit.write_bytes(packed({**parts, "modelDescription.xml": text.encode()}))
    config = block(unit, validate=data.draw(st.booleans()) or "another unit" in chosen)
    found = [
        one
        for one in problems(config, context(folder, folder))
        if (not one.note and one.path != "adapters.fmi.unit") or one.fatal
    ]
    if not alike:
        assert found, chosen
    elif not found and "another token" not in chosen:  # a token that the library does not know is refused as it starts
        assert level(config, folder) == pytest.approx(2.0 / 2.5)


@each
@given(st.data())
def test_damaged_archives(tmp_path_factory, tank, data):  # noqa: F811
    parts, folder = members(tank), tmp_path_factory.mktemp("f")
    library = next(name for name in parts if name.endswith(".so"))
    how = data.draw(st.sampled_from(["cut", "bytes", "no library", "elsewhere", "empty", "no description", "many"]))
    fatal = True
    if how == "many":
        parts |= {f"resources/{k}": b"" for k in range(2000)}
        more = "".join(
            f'<ScalarVariable name="v{k}" valueReference="{k}"><Real/></ScalarVariable>' for k in range(20000)
        )
        text = parts["modelDescription.xml"].decode().replace("</ModelVariables>", f"{more}</ModelVariables>")
        parts["modelDescription.xml"], fatal = text.encode(), False
    elif how == "no description":
        del parts["modelDescription.xml"]
    elif how in ("no library", "elsewhere"):
        binary = parts.pop(library)
        parts |= {library.replace("linux", "linux-of-"): binary} if how == "elsewhere" else {}
    raw = bytearray(packed(parts))
    if how == "cut":
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    elif how == "empty":
        raw.clear()
    elif how == "bytes":
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + 1] = data.draw(st.binary(min_size=1, max_size=3))
    unit = folder / "u.fmu"
    unit.write_bytes(raw)
    before = read_unit(tank, folder)
    try:
        found = read_unit(unit, folder)
    except UnitFaultError:
        assert fatal
        return
    assert how in ("many", "bytes")
    assert found.variables.items() >= before.variables.items()


@pytest.mark.parametrize(
    ("written", "rate", "reported"),
    [
        ("<Integer", 2.0**31, "'flow' takes -2147483648 to 2147483647, not 2147483648"),
        ('<Real max="5"', 6.0, "'flow' takes -inf to 5, not 6.0"),
    ],
)
def test_what_a_variable_does_not_take_is_never_handed_over_in_silence(
    tank,  # noqa: F811
    tmp_path,
    caplog,
    written,
    rate,
    reported,
):
    """A whole number above 32 bit would come out as another one."""
    parts = members(tank)
    text = parts["modelDescription.xml"].decode().replace('<Real start="0"', f'{written} start="0"', 1)
    unit = tmp_path / "u.fmu"
    unit.write_bytes(packed({**parts, "modelDescription.xml": text.encode()}))
    config = block(unit, validate=False)
    if "Real" in written:
        assert level(config, tmp_path, rate) == pytest.approx(2 * rate / 2.5)
        assert caplog.text.count(reported) == 1
    else:
        with pytest.raises(AdapterError, match=reported):
            level(config, tmp_path, rate)


@pytest.mark.parametrize(
    ("kind", "value", "reported"),
    [
        ("UInt8", 300, "takes 0 to 255, not 300"), ("Int8", -129, "takes -128 to 127, not -129"), ("UInt8", 255, ""),
        ("Int64", 2.5, "takes whole numbers, not 2.5"), ("Boolean", 2, "is true or false, not 2"), ("Float32", 2.5, ""),
        ("String", 2.5, "takes text, not 2.5"), ("Binary", 2.5, "is no single number"),
    ],
)  # fmt: skip
def test_start_values_of_every_type_of_fmi_3_are_held_against_it(tmp_path, kind, value, reported):
    parts = members(read_unit(Path(__file__).parents[1] / "example.py", tmp_path).file)
    text = parts["modelDescription.xml"].decode()
    outside = re.search('<Float64 name="outside"[^>]*/>', text)[0]
    start = f' start="{12 if kind != "Boolean" else "true"}"' if kind not in ("String", "Binary") else ""
    changed = f'<{kind} name="outside" valueReference="2" causality="parameter" variability="tunable"{start}/>'
    unit = tmp_path / "u.fmu"
    unit.write_bytes(packed({**parts, "modelDescription.xml": text.replace(outside, changed).encode()}))
    outputs = [{"from": "temperature", "signal": "room", "column": "temperature"}]
    config = block(unit, validate=False, params={"outside": value}, inputs=[], outputs=outputs)
    found = [one.message for one in problems(config, context(tmp_path, tmp_path)) if not one.note and one.fatal]
    assert found == ([f"'outside' {reported}"] if reported else [])
