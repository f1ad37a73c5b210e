"""What tests with containers share: images, built once, and folders that containers can enter."""

from __future__ import annotations

import functools

import pytest


@pytest.fixture(scope="session")
def images():
    """Our images as the checkout has them, for all tests of a session; those tests are one group for xdist."""
    from tests.real.compose import built  # which skips what imports it where psutil is missing

    with built():
        yield


@pytest.fixture
def entered(tmp_path):
    """The test's folder; the users of containers can enter it."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """A folder of the run with simulated nodes, as long as asked for; each is simulated once."""
    from tests.real import follow

    base = tmp_path_factory.mktemp("simulated")
    return functools.cache(
        lambda duration: follow.simulated(follow.write(base / str(duration), duration), base / "runs")
    )
