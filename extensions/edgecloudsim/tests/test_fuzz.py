"""EdgeCloudSim's three files in any form: what is made of them is right, refused or noted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.edgecloudsim.importing import read
from tests.unit.sources.forms import hold
from tests.unit.sources.importing.inputs import PROPERTIES, applications, edge_devices
from tests.unit.sources.test_fuzz import each

TEXTS = {"p.properties": PROPERTIES, "e.xml": edge_devices(), "a.xml": applications()}
VOID = r"^#|<\?xml|costPer|ram_|storage_|^ *</|log_enabled|<ram>|required_core|_for_mobile"


def made(folder):
    return read(folder / "p.properties", folder / "e.xml", folder / "a.xml")


@each
@given(st.data())
def test_other_forms(tmp_path_factory, data):
    hold(made, tmp_path_factory.mktemp("f"), TEXTS, data.draw, VOID)


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
DOCTYPES = {
    "laughs": f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]>',
    "file": '<!DOCTYPE x [<!ENTITY l9 SYSTEM "file:///etc/hostname">]>',
    "network": '<!DOCTYPE x [<!ENTITY l9 SYSTEM "http://127.0.0.1:9/x">]>',
    "parameter": '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p; <!ENTITY l9 "a">]>',
}


@pytest.mark.parametrize("which", DOCTYPES)
@pytest.mark.parametrize("name", ["e.xml", "a.xml"])
def test_entities_are_refused(tmp_path, which, name):
    for one, text in TEXTS.items():
        (tmp_path / one).write_text(text)
    head, rest = TEXTS[name].split("\n", 1)
    (tmp_path / name).write_text(f"{head}\n{DOCTYPES[which]}\n{rest}".replace("VIDEO", "&l9;").replace(">8<", ">&l9;<"))
    with pytest.raises(ScenarioError, match="entity"):
        made(tmp_path)
