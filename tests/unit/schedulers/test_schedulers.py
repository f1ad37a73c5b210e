"""The registry of schedulers."""

import pytest

from cosim.contract.functions import missing_extension
from cosim.engine.continuum.schedulers import ORDER
from cosim.schedulers import BUILTIN, Scheduler, SchedulerError, list_schedulers, scheduler, scheduler_names, target_of
from cosim.schedulers.state import decides


def test_names_stand_for_the_compiled_functions_in_order():
    assert [name.replace("-", "_") for name in BUILTIN] == [function.__name__ for function in ORDER]
    for number, name in enumerate(BUILTIN):
        assert scheduler(name).number == number


def test_every_name_has_one_line():
    listed = list_schedulers()
    assert len({one.name for one in listed}) == len(listed)
    assert {one.name for one in listed} >= set(scheduler_names())
    assert all(one.summary and "\n" not in one.summary for one in listed)
    assert not [one.name for one in listed if not one.models and not missing_extension(target_of(one.name))]


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


def test_a_policy_that_cannot_be_called_is_refused():
    made = Scheduler("mine", -1, None, decides("task")(type("Mine", (), {})))
    for use in (made.for_continuum, lambda: made.policy("continuum")):
        with pytest.raises(SchedulerError, match="'mine' cannot be called; its class needs a method __call__"):
            use()
