"""Pages of made-up runs."""

from __future__ import annotations

import pytest

from cosim.report import write_report
from tests.unit.report.folders import write_run
from tests.unit.report.pages import Page


@pytest.fixture
def page(tmp_path):
    """Writes a run with the given options and gives its page."""

    def make(**options) -> Page:
        return Page(write_report(write_run(tmp_path / "runs", **options)))

    return make
