"""Descriptors of MLSysOps in any form: what is made of them is right, refused or noted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.mlsysops.importing import read
from cosim.extensions.mlsysops.tests.test_importing import APP, CLOUD, NODE
from tests.unit.sources.forms import hold
from tests.unit.sources.test_fuzz import each

TEXTS = {"n.yaml": NODE.replace(", performance_indicator: 70", ""), "v.yaml": CLOUD, "a.yaml": APP}


@each
@given(st.data())
def test_other_forms(tmp_path_factory, data):
    # without an effect: goals of quality, ranges, disks
    hold(lambda at: read([at / name for name in TEXTS]), tmp_path_factory.mktemp("f"), TEXTS, data.draw,
         "qos_metrics|range|disk|environment|imx219")  # fmt: skip
