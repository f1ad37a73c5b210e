"""Policies on the offloading model: those written for any model, and those compiled into it."""

from cosim.extensions.edgecloudsim.offloading.choosing import POLICIES as OFFLOADING
from cosim.extensions.edgecloudsim.offloading.simulation import Simulation
from cosim.extensions.edgecloudsim.offloading.vehicular.choices import POLICIES as VEHICULAR
from cosim.extensions.edgecloudsim.tests.offloading.studies import study
from cosim.schedulers import known_models
from cosim.schedulers.models import per_machine
from cosim.schedulers.policies import edf


def test_policies_run_on_the_offloading_model():
    one = study("app2", "edf", devices=60, warm_up=0.0)
    run = Simulation(one, 1, choose=per_machine(edf))
    run.advance(120.0)
    assert run.outcome().metrics()["completed"] > 100


def test_the_catalogue_names_what_the_model_has():
    models = known_models()
    assert {name for names in OFFLOADING.values() for name in names} == set(models["offloading"].compiled)
    assert set(VEHICULAR) == set(models["vehicular"].compiled)
