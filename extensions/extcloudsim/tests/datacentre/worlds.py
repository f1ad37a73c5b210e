"""Small datacentres for tests."""

import numpy as np

from cosim.engine.continuum.power import PLATFORMS
from cosim.extensions.extcloudsim.datacentre.layout import Hosts, Machines, Wan
from cosim.extensions.extcloudsim.datacentre.model import Datacentres
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings

XEON = HostKind(PLATFORMS["xeon-1220"])


def hosts_of(count, places=1, kinds=1, mips=4.0, ram=4096.0):
    return Hosts(
        kind=np.arange(count) % kinds,
        place=np.sort(np.arange(count) % places),
        mips=np.full(count, mips),
        ram=np.full(count, ram),
        failures=np.zeros(count),
    )


def machines_of(count, mips=1.0, ram=512.0, work=2, rate=2.0, price=0.0124 / 3600):
    def each(value, dtype=np.float64):
        return np.array(np.broadcast_to(np.asarray(value, dtype), count))

    return Machines(each(mips), each(ram), each(work, np.int64), each(rate), each(price))


def wan_of(places, bandwidth=25.0, factor=2.0, cost=1e-5):
    same = np.eye(places, dtype=bool)
    return Wan(
        np.where(same, 125.0, bandwidth),
        np.where(same, 0.0, 500.0),
        np.where(same, 1.0, factor),
        np.where(same, 0.0, cost),
    )


def model_of(
    utilisation,
    hosts=None,
    machines=None,
    kinds=(XEON,),
    tariffs=(),
    wan=None,
    life=None,
    at=None,
    caps=(),
    cooling=(),
    gpu_utilisation=None,
    **settings,
):
    utilisation = np.atleast_2d(np.asarray(utilisation, np.float64))
    count = len(utilisation)
    return Datacentres(
        hosts or hosts_of(count),
        kinds_of(kinds),
        machines or machines_of(count),
        utilisation,
        DatacentreSettings(**settings),
        tariffs,
        wan=wan,
        life=life,
        at=at,
        caps=caps,
        cooling=cooling,
        gpu_utilisation=gpu_utilisation,
    )
