"""Files of iFogSim and CloudSim in any form: what is made of them is right, refused or noted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.importers import cloudsim, ifogsim
from cosim.extensions.importers.tests.test_cloudsim import TEXT
from cosim.extensions.importers.tests.test_ifogsim import LINKS, NODES
from tests.unit.sources.forms import hold, refuses_bombs
from tests.unit.sources.test_fuzz import each

# Fields without an effect here, or with one beyond a limit alone.
FORMATS = {
    "ifogsim": (
        ifogsim.read,
        json.dumps({"nodes": NODES, "links": LINKS}, indent=1),
        r'"(upBw": 100|downBw": 270|level)',
    ),
    "cloudsim": (cloudsim.read, TEXT, r"name|vmm|mips: 2000|ram|bw|size|storage|utilization|vmMigration|^ *- !"),
}


@pytest.mark.parametrize("name", FORMATS)
@each
@given(st.data())
def test_other_forms(tmp_path_factory, name, data):
    read, text, void = FORMATS[name]
    folder = tmp_path_factory.mktemp("f")
    hold(lambda at: read(at / "source"), folder, {"source": text}, data.draw, void)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_bombs(tmp_path, name):
    read, text, _ = FORMATS[name]
    refuses_bombs(lambda at: read(at / "source"), tmp_path, {"source": text})
