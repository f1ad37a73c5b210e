"""Whatever goes wrong with containers of a script, nothing of them is left: on an engine that is made up."""

from __future__ import annotations

import gc
import itertools
import sys
from types import SimpleNamespace

import pytest

from cosim.errors import RunError, SetupError
from cosim.launch import deployment
from cosim.launch.deployment import DEPLOYMENT, SERVICE, Deployment, engine, remove
from tests.unit.launch.worlds import DRONE, EDGE, plan

errors = pytest.importorskip("docker.errors")

ALL = ("network", "orchestrator", "uav-1-net", "host-net", "dashboard", "uav-1", "host")


class Thing:
    """A container, a network or a volume."""

    def __init__(self, engine, where, name, **how):
        self.engine, self.where, self.name, self.how, self.id = engine, where, name, how, f"id-of-{name}"
        self.files, self.joined, self.ports = {}, [], {}
        self.state = {"Status": "created", "ExitCode": 0}

    @property
    def attrs(self):
        return {"State": dict(self.state)}

    def reload(self):
        self.engine.call("reload")

    def start(self):
        self.engine.call("start")
        for other in self.how.get("network_mode", "").split(":")[1:]:
            assert self.engine.named(other.removeprefix("id-of-")).state["Status"] == "running"
        self.state["Status"] = "running"
        self.engine.started.append(self.how["labels"][SERVICE])

    def stop(self, timeout):
        self.engine.call("stop")
        self.state = {"Status": "exited", "ExitCode": 143}
        self.engine.stopped.append(self.how["labels"][SERVICE])

    def logs(self):
        return b"said \xff"

    def connect(self, container, aliases):
        self.engine.call("connect")
        container.joined.append((self.name, aliases))

    def put_archive(self, path, data):
        self.engine.call("put")

    def remove(self, **how):
        if self not in self.where.things:
            raise errors.NotFound("gone")
        used = self.where is not self.engine.containers and self.engine.containers.things
        if used and next(self.engine.busy) < 3:
            raise errors.APIError("in use")
        self.where.things.remove(self)


class Kind:
    """All things of a kind."""

    def __init__(self, engine):
        self.engine, self.things = engine, []

    def create(self, *names, name="", **how):
        if names and not name:
            (name,) = names  # of a network or a volume
        made = Thing(self.engine, self, name, **how)
        self.engine.call("create", lambda: self.things.append(made))
        if self is self.engine.containers:
            made.image = names[0]
        return made

    def get(self, name):
        return self.engine.named(name)

    def list(self, filters, **how):
        key, _, value = filters["label"].partition("=")
        return [thing for thing in self.things if thing.how["labels"].get(key) == value]


class Engine:
    """Remembers what it was told; the call with the number `fails` ends in `problem`, after it was done."""

    def __init__(self, fails=-1, problem=None):
        self.containers, self.networks, self.volumes = Kind(self), Kind(self), Kind(self)
        self.images = SimpleNamespace(get=self.image, pull=lambda name: self.pulled.append(name))
        self.api = SimpleNamespace(create_endpoint_config=dict)
        self.there, self.pulled, self.started, self.stopped = True, [], [], []
        self.calls, self.fails, self.problem, self.closed = 0, fails, problem, 0
        self.busy = itertools.count()

    def call(self, what, do=lambda: None):
        do()
        self.calls += 1
        if self.calls == self.fails:
            raise self.problem

    def image(self, name):
        if not self.there:
            raise errors.ImageNotFound(name)

    def named(self, name):
        (found,) = (t for kind in (self.containers, self.networks) for t in kind.things if t.name == name)
        return found

    def close(self):
        self.closed += 1

    @property
    def left(self):
        return [thing.name for kind in (self.containers, self.networks, self.volumes) for thing in kind.things]


class Healthy(Engine):
    """Its network service is healthy at the second look."""

    def call(self, what, do=lambda: None):
        super().call(what, do)
        if what == "reload":
            for thing in self.containers.things:
                if thing.name.endswith("-network"):
                    thing.state["Health"] = {"Status": "healthy" if self.calls % 2 else "starting"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    port = EDGE.replace("runs: vedgenode", "runs: {image: vedgenode, ports: [8500]}")
    return plan(folder, uav_1=DRONE, host=port), folder / "scenario.cosim.yaml"


@pytest.fixture
def on(monkeypatch):
    """Makes an engine the one that answers."""
    monkeypatch.setattr(deployment, "_LOOK", 0.0)

    def put(engine):
        monkeypatch.setattr(deployment, "engine", lambda: engine)
        return engine

    return put


def test_services_are_started_in_order_with_their_networks_and_are_gone_afterwards(small, on, tmp_path):
    engine = on(Healthy())
    with Deployment(*small, runs=tmp_path / "r", variables={"COSIM_TAG": "t"}) as made:
        assert engine.started == list(made.services)
        assert sorted(made.services) == sorted(ALL)
        assert (tmp_path / "r").is_dir()
        sidecar, node = (engine.named(f"{made.name}-{name}") for name in ("host-net", "host"))
        assert node.how["network_mode"] == f"container:{sidecar.id}"
        assert sidecar.how["network"] == f"{made.name}_front"
        assert sidecar.how["networking_config"] == {f"{made.name}_front": {"aliases": ["host-net"]}}
        assert sidecar.joined == [(f"{made.name}_management", ["host-net"])]
        assert sidecar.how["volumes"] == [f"{made.name}_sockets:/run/cosim"]
        assert node.image == "continuum-cosim/vedgenode:t"
        assert engine.named(f"{made.name}_management").how["internal"]
        assert engine.volumes.things[0].how["driver_opts"]["type"] == "tmpfs"
        assert all(t.how["labels"][DEPLOYMENT] == made.name for t in engine.containers.things + engine.networks.things)
        assert made.logs("host") == "said �"
    assert engine.left == []
    assert engine.stopped == ["orchestrator"]  # asked to end, so that it writes what it has
    assert engine.closed == 1
    made.close()  # once more does no harm


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), errors.APIError("no space")], ids=type)
def test_a_start_that_breaks_off_leaves_nothing_wherever_it_does(small, on, tmp_path, problem):
    engine = on(Healthy())
    with Deployment(*small, runs=tmp_path):
        calls = engine.calls
    assert calls > 20
    for number in range(1, calls + 1):
        engine = on(Healthy(number, problem))
        with pytest.raises(type(problem)), Deployment(*small, runs=tmp_path):
            pytest.fail("it was not broken off")
        assert engine.left == []
        assert engine.closed == 1


def test_an_error_in_the_block_and_an_interrupt_while_the_run_is_stopped_leave_nothing(small, on, tmp_path):
    engine = on(Healthy())
    with pytest.raises(ZeroDivisionError), Deployment(*small, runs=tmp_path):
        raise ZeroDivisionError
    assert engine.left == []
    engine = on(Healthy())
    with pytest.raises(KeyboardInterrupt), Deployment(*small, runs=tmp_path):
        engine.fails, engine.problem = engine.calls + 1, KeyboardInterrupt()
    assert engine.left == []


def test_two_deployments_do_not_touch_each_other(small, on, tmp_path):
    engine = on(Healthy())
    with Deployment(*small, runs=tmp_path) as one:
        with Deployment(*small, runs=tmp_path) as other:
            assert one.name != other.name
            assert len(engine.left) == 2 * (len(ALL) + 4)  # three networks and a volume each
        assert len(engine.left) == len(ALL) + 4
        assert all(name.startswith(one.name) for name in engine.left)


def test_a_service_that_does_not_get_ready_is_named_with_what_it_said(small, on, tmp_path, monkeypatch):
    monkeypatch.setattr(deployment, "READY", 0.0)
    engine = on(Engine())
    with pytest.raises(RunError, match="service 'network' is not ready after 0 s: said"):
        Deployment(*small, runs=tmp_path).start()
    assert engine.left == []


def test_images_of_ours_have_to_be_built_and_others_are_fetched(small, on, tmp_path):
    engine = on(Healthy())
    engine.there = False
    with pytest.raises(SetupError, match=r"'continuum-cosim/\w+:latest' is not built yet: `docker compose build`"):
        Deployment(*small, runs=tmp_path).start()
    assert engine.left == []
    made = plan(tmp_path / "s", host=EDGE.replace("vedgenode", "'example.org/it:1'"))
    engine.image = engine.images.get = lambda name: (
        None if name.startswith("continuum-cosim/") else Engine.image(engine, name)
    )
    with Deployment(made, tmp_path / "s" / "scenario.cosim.yaml", runs=tmp_path):
        assert engine.pulled == ["example.org/it:1"]


def results(runs, name):
    (runs / "small" / name).mkdir(parents=True)
    (runs / "small" / name / "manifest.json").touch()
    return runs / "small" / name


def test_waiting_ends_with_the_run_or_with_the_time(small, on, tmp_path):
    engine = on(Healthy())
    results(tmp_path, "20990101-of-before")
    with Deployment(*small, runs=tmp_path) as made:
        with pytest.raises(TimeoutError, match="has not ended after 0 s"):
            made.wait(0.0)
        engine.named(f"{made.name}-orchestrator").state = {"Status": "exited", "ExitCode": 2}
        assert made.wait() == 2
        with pytest.raises(RunError, match="no service 'nobody'"):
            made.kill("nobody")
        with pytest.raises(RunError, match="port 1 of 'host-net' is not shown"):
            made.address("host-net", 1)
        engine.named(f"{made.name}-host-net").ports = {"8500/tcp": [{"HostIp": "127.0.0.1", "HostPort": "41"}]}
        assert made.address("host-net", 8500) == "127.0.0.1:41"
        with pytest.raises(RunError, match="no results"):
            _ = made.folder
        mine = results(tmp_path, "20260101-mine")
        assert made.folder == mine


def test_what_cannot_be_removed_is_an_error(on, monkeypatch):
    monkeypatch.setattr(deployment, "REMOVAL", -1.0)
    engine = on(Engine())
    engine.networks.create("n", labels={DEPLOYMENT: "a"})
    engine.networks.create("m", labels={DEPLOYMENT: "b"})
    engine.containers.create("i", name="c", labels={})  # somebody else's, in the network
    with pytest.raises(RunError, match="'a' is not wholly removed: in use"):
        remove(engine, "a")
    engine.containers.things.clear()
    remove(engine, "a")
    assert engine.left == ["m"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the package leaves a socket that did not connect open
def test_a_package_or_an_engine_that_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(SetupError, match=r"no container engine answers at unix:///nowhere.*start it"):
        engine()
    gc.collect()
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SetupError, match=r"pip install 'continuum-cosim\[containers\]'"):
        engine()
