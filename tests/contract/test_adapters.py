"""Every registered adapter keeps the contract, with the example that it ships."""

import subprocess
import sys
from pathlib import Path

import pytest

from cosim.contract import registry
from cosim.contract.errors import SetupError
from cosim.testing import check_adapter

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", registry.adapter_names())
def test_adapter_keeps_the_contract(name):
    kind = registry.adapter_kind(name)
    missing = "; ".join(filter(None, (requirement.missing() for requirement in kind.requires)))
    if missing:
        pytest.skip(missing)
    if kind.isolated:  # it wants a process of its own, so give it one
        package = kind.config.partition(":")[0].rpartition(".")[0]
        command = [sys.executable, "-m", "cosim.testing", package]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    try:
        check_adapter(kind)
    except SetupError as error:
        pytest.skip(str(error))
