"""What tests of the twin share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def beginning(request):
    """The generator `RANDOM` of a module, if it has one, and its state before the first test."""
    random = getattr(request.module, "RANDOM", None)
    return random, None if random is None else random.bit_generator.state


@pytest.fixture(autouse=True)
def same_draws(beginning):
    """Each test has the same numbers whichever ran before it in this process."""
    random, state = beginning
    if random is not None:
        random.bit_generator.state = state
