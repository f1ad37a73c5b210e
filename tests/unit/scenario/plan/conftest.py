from collections.abc import Callable
from pathlib import Path

import pytest

from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.plan import Plan
from tests.unit.scenario import fakes

MakePlan = Callable[..., Plan]


@pytest.fixture(autouse=True)
def _registry() -> None:
    """Many plans are of real adapters, other than the scenarios in the folder above."""


@pytest.fixture
def make_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePlan:
    """Compile the sample scenario with some texts replaced; every text to replace must be there."""
    fakes.install(monkeypatch)

    def make(
        *changes: tuple[str, str], overrides: tuple[str, ...] = (), text: str = fakes.FARM, folder: str = "farm"
    ) -> Plan:
        for old, new in changes:
            assert old in text, f"the sample does not hold {old!r}"
            text = text.replace(old, new, 1)
        file = tmp_path / folder / "scenario.cosim.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return compile_plan(load(file, overrides))

    return make
