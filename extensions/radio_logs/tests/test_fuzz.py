"""Logs in any form: what a reader makes of them is right or refused, and never a traceback."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.radio_logs import open5gs, srsran
from tests.unit.sources.test_fuzz import EDITS, PACKS, SAMPLES, damaged, each

BEFORE = [
    "", "amf-1  | ", "Aug 30 14:45:33 host open5gs-amfd[12]: ", "2030-08-30T14:45:33.3Z ", "\x1b[36mamf |\x1b[0m ",
]  # fmt: skip
HEADS = [
    "pci rnti | cqi ri mcs brate ok nok (%) dl_bs | pusch rsrp ri mcs brate ok nok (%) bsr ta phr",
    "pci rnti cqi ri mcs brate ok nok (%) dl_bs | pusch mcs brate ok nok (%) bsr",
    "pci rnti cqi mcs brate ok nok (%) | pusch mcs brate ok nok (%) bsr",
    "rat pci rnti cqi ri mcs brate ok nok (%) | pusch pucch phr mcs brate ok nok (%) bsr",
]


@each
@given(st.data())
def test_logs(tmp_path_factory, data):
    draw = data.draw
    before, head = draw(st.sampled_from(BEFORE)), draw(st.sampled_from(HEADS))
    colour = draw(st.booleans())
    path = tmp_path_factory.mktemp("f") / "c.log"
    time = "\x1b[32m08/30 14:45:33.368\x1b[0m" if colour else "08/30 14:45:33.368"
    lines = [f"{before}{time}: [amf] INFO: [Added] Number of gNB-UEs is now {k} (c.c:1)" for k in range(3)]
    path.write_bytes(draw(PACKS)("\n".join(["Open5GS daemon", *lines]).encode()))
    assert [event.now for event in open5gs.read(path, 2030)] == [0, 1, 2]
    values = {"pci": "1", "rnti": "4601", "rat": "NR", "(%)": "0%"}
    words, ways = [], 0
    for word in head.split():
        ways += word == "mcs"
        words.append(values.get(word, "|" if word == "|" else str(10 * ways) if word == "mcs" else "7"))
    path.write_bytes(draw(PACKS)("\n".join([before + head, before + " ".join(words)]).encode()))
    (row,) = srsran.read_trace(path)
    assert (row["dl_mcs"], row["ul_mcs"], row["pci"], row["rnti"]) == (10.0, 20.0, 1, 0x4601)


LOG = "08/30 14:45:33.368: [amf] INFO: [Added] Number of gNBs is now 1\n pci rnti mcs ok\n 1 4601 5 7\n"


@each
@given(st.sampled_from([LOG, *SAMPLES.values()]), EDITS, PACKS)
def test_damaged_logs_are_refused_or_read(tmp_path_factory, text, edits, pack):
    path = damaged(tmp_path_factory.mktemp("f") / "o.log", text, edits, pack)
    for reader in (open5gs.read, srsran.read_trace, srsran.read_log):
        with suppress(ScenarioError):
            reader(path)
