"""Every registered adapter keeps the contract, with the example that it ships."""

import pytest

from cosim.contract import registry
from cosim.contract.errors import SetupError
from cosim.testing import check_adapter
from tests.extensions import named
from tests.forked import COSIM

pytestmark = pytest.mark.xdist_group("kernels")  # after an edit these compile for a minute: one worker does it


@pytest.mark.parametrize("name", named("adapters", registry.adapter_names()))
def test_adapter_keeps_the_contract(name):
    kind = registry.adapter_kind(name)
    missing = "; ".join(filter(None, (requirement.missing() for requirement in kind.requires)))
    if missing:
        pytest.skip(missing)
    if kind.isolated:  # it wants a process of its own, so give it one
        package = kind.config.partition(":")[0].rpartition(".")[0]
        done = COSIM.run("cosim.testing", package)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    try:
        check_adapter(kind)
    except SetupError as error:
        pytest.skip(str(error))
