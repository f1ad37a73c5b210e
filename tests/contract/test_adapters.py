"""Every registered adapter keeps the contract."""

import pytest

from cosim import registry
from cosim.errors import SetupError
from cosim.testing import check_adapter


@pytest.mark.parametrize("name", registry.adapter_names())
def test_adapter_keeps_the_contract(name):
    kind = registry.adapter_kind(name)
    try:
        check_adapter(kind)
    except SetupError as error:
        pytest.skip(str(error))
