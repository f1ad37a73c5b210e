"""Files of others in other forms: as editors and packers keep them, and with a mistake in one line."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.sources.importing.imported import Imported

NUMBER = re.compile(r"(?<![\w.#:-])-?\d+(?:\.\d+)?(?![\w.:-])")
BOMB = 300_000_000  # B of blanks, which a packer makes some kB of


def zipped(raw: bytes) -> bytes:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", raw)
    return kept.getvalue()


PACKERS = (bytes, gzip.compress, bz2.compress, lzma.compress, zipped)
TEXTS: tuple[Callable[[str], bytes], ...] = (
    str.encode,
    lambda text: text.replace("\n", "\r\n").encode(),
    lambda text: codecs.BOM_UTF8 + text.encode(),
    lambda text: text.encode("utf-16"),
    lambda text: text.encode("utf-16-le"),  # without a mark of its order
    lambda text: text.encode("utf-32"),
)


def wrong(draw: Any, text: str, void: str) -> str:
    """`text` with one line lost, doubled or cut off, or a number that is another, has a unit or is none.

    Lines that match `void` stay as they are.
    """
    lines = text.split("\n")
    named = [k for k, line in enumerate(lines) if line.strip() and not re.search(void, line)]
    place, how = draw(st.sampled_from(named)), draw(st.sampled_from(("lost", "twice", "cut", "number", "number")))
    found = list(NUMBER.finditer(lines[place]))
    if how == "number" and found:
        one = draw(st.sampled_from(found))
        new = draw(st.sampled_from((f"{float(one[0]) * 1000 + 1:g}", f"{one[0]} MB", f"{one[0]}k", "many", "1,5", "")))
        lines[place] = lines[place][: one.start()] + new + lines[place][one.end() :]
    elif how == "cut":
        lines[place:] = [lines[place][: draw(st.integers(0, len(lines[place]) - 1))]]
    elif how == "lost":
        del lines[place]
    else:
        lines.insert(place, lines[place])
    return "\n".join(lines)


def outcome(read: Callable[[Path], object], folder: Path, files: Mapping[str, bytes]) -> object:
    """What `read` makes of the files; None where it refuses them."""
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    try:
        found = read(folder)
    except ScenarioError:
        return None
    if not isinstance(found, Imported):
        return found
    beside = []
    for write in found.beside.values():
        write(folder / "beside")
        beside.append((folder / "beside").read_bytes())
    return found.text, found.notices, repr(found.facts), beside


def hold(read: Callable[[Path], object], folder: Path, texts: Mapping[str, str], draw: Any, void: str = "^$") -> None:
    """What is packed or encoded in another way is read alike or refused; what is wrong is never read alike.

    A mistake in lines that match `void` has no effect.
    """
    right = {name: text.encode() for name, text in texts.items()}
    expected = outcome(read, folder, right)
    assert expected is not None
    one = draw(st.sampled_from(sorted(texts)))
    kind = draw(st.sampled_from(("form", "wrong", "wrong", "wrong", "empty", "bytes")))
    if kind == "form":
        raw = draw(st.sampled_from(PACKERS))(draw(st.sampled_from(TEXTS))(texts[one]))
        assert outcome(read, folder, right | {one: raw}) in (expected, None)
    elif kind == "wrong":
        text = wrong(draw, texts[one], void)
        assert outcome(read, folder, right | {one: text.encode()}) != expected or text == texts[one], text
    elif kind == "empty":
        assert outcome(read, folder, right | {one: b""}) != expected
    else:
        raw = bytearray(draw(st.sampled_from(PACKERS))(right[one]))
        for place, new in draw(st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=3)), max_size=4)):
            raw[place % len(raw) : place % len(raw) + 1] = new
        outcome(read, folder, right | {one: bytes(raw)})


def refuses_bombs(read: Callable[[Path], object], folder: Path, texts: Mapping[str, str]) -> None:
    """No file that unpacks to far more than it is gets into memory."""
    bomb = gzip.compress(b" " * BOMB, 1)
    for name in texts:
        assert outcome(read, folder, {each: text.encode() for each, text in texts.items()} | {name: bomb}) is None
