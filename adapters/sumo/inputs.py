"""Which of SUMO's input files only describe streets and traffic; others make it write files or open sockets."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from typing import IO, cast
from xml.parsers import expat

from cosim.contract.reading.columns import clock_of
from cosim.contract.reading.packed import GZIP

_KNOWN = re.compile(  # of https://sumo.dlr.de/xsd/net_file.xsd and routes_file.xsd, without what writes or includes
    "net|location|type|restriction|edge|lane|neigh|stopOffset|param|junction|request|connection|tlLogic|phase"
    "|roundabout|prohibition|routes|vType(Distribution)?|route(Distribution)?|vehicle|trip|flow|person(Flow|Trip)?|walk"
    "|ride|stop|container(Flow)?|transport|tranship|interval|carFollowing-.*"
)
_SCHEMA = re.compile(r"https?://sumo\.(dlr\.de|sf\.net)/xsd/\w+\.xsd")  # SUMO has copies of them


def opened(path: Path) -> IO[bytes]:
    """A file for reading, unpacked as SUMO does: from gzip alone, by its first bytes."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb")


def seconds(text: str) -> float:
    """s of a time as SUMO takes it, 30 or 00:00:30; NaN for other texts."""
    try:
        return clock_of(text) if ":" in text else float(text)
    except ValueError:
        return math.nan


def acts(path: Path) -> str:
    """Why SUMO would do more than read the network or routes in `path`, "" if it only reads them."""
    parser = expat.ParserCreate()

    def doctype(*_: object) -> None:
        raise ValueError("has a document type, which may name other files")

    def element(name: str, attributes: dict[str, str]) -> None:
        key = attributes.get("key", "") if name == "param" else ""
        if not _KNOWN.fullmatch(name):
            raise ValueError(f"has the element '{name}', which is no part of a network or of routes")
        for word, value in attributes.items():
            named = "chemaLocation" in word and not _SCHEMA.fullmatch(value)
            if named or re.search("file|output|href", word + key, re.IGNORECASE) or "." in key:
                raise ValueError(f"has '{key or word}' at '{name}', by which SUMO reads or writes other files")

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = doctype, element
    try:
        with opened(path) as file:
            parser.ParseFile(file)
    except (OSError, EOFError, ValueError, expat.ExpatError) as error:
        return f"names '{path.name}', which {error if isinstance(error, ValueError) else f'is no XML: {error}'}"
    return ""
