from collections.abc import Callable
from pathlib import Path

import pytest

from cosim.contract.errors import Problem, ScenarioError
from cosim.scenario.load import load
from tests.unit.scenario import fakes


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)


@pytest.fixture
def farm(tmp_path: Path) -> Callable[..., Path]:
    """Write the sample scenario with some texts replaced; every text to replace must be there."""

    def write(*changes: tuple[str, str], text: str = fakes.FARM) -> Path:
        for old, new in changes:
            assert old in text, f"the sample does not hold {old!r}"
            text = text.replace(old, new, 1)
        file = tmp_path / "scenario.cosim.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.fixture
def problems(farm: Callable[..., Path]) -> Callable[..., list[Problem]]:
    """The problems of the sample scenario with some texts replaced."""

    def collect(*changes: tuple[str, str], overrides: tuple[str, ...] = (), text: str = fakes.FARM) -> list[Problem]:
        with pytest.raises(ScenarioError) as caught:
            load(farm(*changes, text=text), overrides)
        assert caught.value.exit_code == 2
        return caught.value.problems

    return collect
