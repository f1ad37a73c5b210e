"""The registry of schedulers."""

import pytest

from cosim.schedulers import BUILTIN, SchedulerError, list_schedulers, scheduler, scheduler_names
from cosim.schedulers.builtin import ORDER


def test_names_stand_for_the_compiled_functions_in_order():
    assert [name.replace("-", "_") for name in BUILTIN] == [function.__name__ for function in ORDER]
    for number, name in enumerate(BUILTIN):
        assert scheduler(name).number == number


def test_every_name_has_one_line():
    listed = dict(list_schedulers())
    assert tuple(listed) == scheduler_names()
    assert all(text and "\n" not in text for text in listed.values())


def test_a_function_of_the_users_own():
    chosen = scheduler("operator:add")
    assert chosen.number == -1
    assert chosen.function(1, 2) == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nearby", "known: nearest, least-loaded"),
        ("no_such_module_here:f", "cannot be imported"),
        ("operator:no_such_function", "cannot be imported"),
        ("math:pi", "is a float, not a function"),
        (":f", "cannot be imported"),
    ],
)
def test_what_cannot_be_had_is_said(name, said):
    with pytest.raises(SchedulerError, match=said):
        scheduler(name)
