"""What becomes of a deployment when `docker` fails or is not there, with a small program in its place."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from cosim.contract.errors import RunError, SetupError
from cosim.testbed.launch import sources
from cosim.testbed.launch.cleanup import remove_left
from cosim.testbed.launch.contained import ended_by_signals
from cosim.testbed.launch.deployment import Deployment, require_engine
from tests.unit.testbed.launch.worlds import DRONE, EDGE, plan

STAND_IN = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
  *"$FAILS"*) echo "$ASIDE"; echo "${WHY:-no such thing}" >&2; exit 17;;
  "compose version --short") echo "$COMPOSE";;
  *" build") printf '#7 [cosim python 1/2] FROM x\n#7 CACHED\n#9 [vedgenode packages 3/3] RUN pip\n'
    echo '#9 1.5 certificate verify FAILED'
    exit "$BUILT";;
  *" ps --all --quiet "*) echo f00d;;
  "wait f00d") echo 3;;
  *" ps --all --quiet") echo f00d;;
  "inspect f00d") echo "$INSPECTED";;
  *" logs "*) echo "host-1  | cannot read my settings";;
  *" port "*) echo "127.0.0.1:8081";;
  *"config --images"*) printf 'continuum-cosim/cosim:latest\ngrafana/grafana\n';;
  *--services*) printf 'network\\norchestrator\\n';;
esac
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """The commands that `docker` is given; it fails where the environment's FAILS is among the words."""
    program, found = tmp_path / "bin" / "docker", tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(found))
    monkeypatch.setenv("FAILS", "nothing fails")
    monkeypatch.setenv("BUILT", "0")
    return lambda: found.read_text().splitlines() if found.exists() else []


@pytest.fixture
def deployment(tmp_path):
    made = plan(tmp_path / "world", uav=DRONE, host=EDGE)
    return Deployment(made, tmp_path / "world" / "scenario.cosim.yaml", runs=tmp_path / "runs")


@pytest.fixture(autouse=True)
def folder(tmp_path):
    (tmp_path / "world").mkdir()


def test_everything_goes_by_one_project_that_is_removed(calls, deployment):
    with deployment as made:
        assert made.services == ("network", "orchestrator")
        assert made.address("dashboard", 8080) == "127.0.0.1:8081"
        assert made.wait(1.0) == 3
    compose = [line for line in calls() if "--project-name" in line]
    assert all(f"--project-name {deployment.name} " in line for line in compose)
    assert compose[0].endswith("config --images")
    assert compose[1].endswith("up --detach --no-build --quiet-pull")
    assert compose[-2].endswith("stop --timeout 60 orchestrator")
    assert compose[-1].endswith("down --volumes --timeout 1")
    files = {line.split("--file ")[1].split()[0] for line in compose}
    assert len(files) == 1
    with pytest.raises(FileNotFoundError):
        open(files.pop()).close()  # noqa: PTH123


def killed(tmp_path, deed="pass"):
    """The project of a process that was killed with its process group while its containers were up."""
    script = f"""if True:
        from pathlib import Path
        from tests.unit.testbed.launch.test_deployment import Deployment, plan
        made = plan(Path({str(tmp_path)!r}) / "world", uav={DRONE!r}, host={EDGE!r})
        other = Deployment(made, Path({str(tmp_path)!r}) / "world/scenario.cosim.yaml", runs=Path({str(tmp_path)!r}))
        other.start()
        print(other.name, flush=True)
        {deed}
        __import__("os").killpg(0, 9)
    """
    known = {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **known}, start_new_session=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return killed.stdout.strip()


def test_a_keeper_removes_what_a_killed_process_has_left(calls, tmp_path):
    name = killed(tmp_path)
    end = time.monotonic() + 60.0
    while (tmp_path / name).exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert [line.split(" --file ")[0].split()[-1] for line in calls()[-2:]] == [name] * 2
    assert calls()[-2].endswith("stop --timeout 60 orchestrator")
    assert calls()[-1].endswith("down --volumes --timeout 1")


def test_the_next_start_removes_what_a_killed_process_has_left(calls, deployment, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deployment.start()
    name, reported = killed(tmp_path, "other._keeper.kill(), other._keeper.wait()"), []
    monkeypatch.setenv("FAILS", "down")
    remove_left(say=reported.append)  # the engine does not want to now
    assert (tmp_path / name).is_dir()
    monkeypatch.setenv("FAILS", "nothing fails")
    remove_left(say=reported.append)
    assert [line.split("; ")[0] for line in reported] == [
        f"removing the containers of project {name}, whose run was killed",
        "they cannot be removed now",
        f"removing the containers of project {name}, whose run was killed",
    ]
    assert [line.split()[2] for line in calls()[-2:]] == [name] * 2
    assert not (tmp_path / name).exists()
    assert (tmp_path / deployment.name).is_dir()  # whose process is there
    deployment.close()
    assert not (tmp_path / deployment.name).exists()


def test_results_that_cannot_be_written_are_refused_before_anything_starts(calls, deployment, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != deployment.runs)
    with pytest.raises(SetupError, match="name another folder by --out"), deployment:
        pass
    assert not [line for line in calls() if "--project-name" in line]


def test_what_does_not_start_is_removed_and_says_why(calls, deployment):
    deployment._environment["FAILS"] = " up "
    with pytest.raises(RunError, match="no such thing"), deployment:
        pass
    assert calls()[-1].endswith("down --volumes --timeout 1")


def test_an_image_that_is_missing_is_told_before_anything_starts(calls, deployment, monkeypatch):
    monkeypatch.setenv("FAILS", "image inspect continuum-cosim/")
    with pytest.raises(RunError, match=r"no image continuum-cosim/cosim:latest: `docker compose build`"), deployment:
        pass
    assert not [line for line in calls() if " up " in line or "grafana" in line]


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            "listen tcp4 127.0.0.1:8088: bind: address already in use",
            "8088: .*; a port of this machine is in use: COSIM_D",
        ),
        ("no such host", "no image grafana/grafana, and it cannot be pulled: .* failed: Error: no such host$"),
    ],
)
def test_what_keeps_containers_from_starting_is_told_with_a_remedy(calls, deployment, monkeypatch, why, said):
    deployment._environment |= {"FAILS": " up ", "WHY": f"net-1 Started\nError: {why}"}
    monkeypatch.setenv("FAILS", "image inspect grafana")
    with pytest.raises(RunError, match=said) as reported, deployment:
        pass
    assert "Started" not in str(reported.value)


def test_programs_that_were_started_again_are_named_and_logs_are_kept(calls, deployment, tmp_path, monkeypatch):
    labels = {"com.docker.compose.service": "host"}
    ended = {"Running": True, "Restarting": True, "OOMKilled": True, "ExitCode": 137}
    one = {"RestartCount": 4, "State": ended, "Config": {"Labels": labels}, "HostConfig": {"Memory": 64_000_000}}
    deployment._environment["INSPECTED"] = json.dumps([one, {**one, "RestartCount": 0}])
    with deployment:
        (tmp_path / "runs" / "world" / "1" / "logs").mkdir(parents=True)
        (tmp_path / "runs" / "world" / "1" / "manifest.json").write_text("{}")
        assert deployment.restarts == (
            "host was started again 4 times; it last ended with exit code 137, out of memory: it has 64 MB",
        )
    assert (tmp_path / "runs/world/1/logs/containers.log").read_text() == "host-1  | cannot read my settings\n"


@pytest.mark.parametrize("there", [True, False])
def test_an_installed_package_builds_an_image_that_is_missing(calls, tmp_path, monkeypatch, there):
    brought = tmp_path / "image"
    (brought / "containers" / "cosim").mkdir(parents=True)
    (brought / "containers" / "cosim" / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.setattr(sources, "BROUGHT", brought)
    monkeypatch.setattr("cosim.testbed.launch.deployment.checkout", lambda near: None)
    if not there:
        monkeypatch.setenv("FAILS", "image inspect continuum-cosim/")
    made = plan(tmp_path / "world", uav=DRONE, host=EDGE)
    deployment = Deployment(made, tmp_path / "world" / "scenario.cosim.yaml", runs=tmp_path / "runs", build=True)
    (context,) = {line.split("context: ")[1] for line in deployment._text.splitlines() if "context: " in line}
    folder = (tmp_path / "world" / context).resolve()
    with deployment:
        assert (folder / "containers/cosim/Dockerfile").is_file() is not there
        assert (folder / "cosim/testbed/launch/entry.py").is_file() is not there
        assert not (folder / "cosim/precompiled").exists()
    assert not folder.parent.exists()
    assert len([line for line in calls() if line.endswith(" build")]) == (not there)


@pytest.mark.parametrize("code", ["0", "1"])
def test_the_steps_of_a_build_are_told_and_why_it_fails(calls, tmp_path, monkeypatch, code):
    monkeypatch.setenv("BUILT", code)
    made, reported = plan(tmp_path / "world", uav=DRONE, host=EDGE), []
    scenario = tmp_path / "world" / "scenario.cosim.yaml"
    deployment = Deployment(made, scenario, runs=tmp_path / "runs", build=True, progress=reported.append)
    if code == "0":
        with deployment:
            pass
    else:
        with pytest.raises(RunError, match=r"(?s)cannot be built:.*verify FAILED\nhint: .*COSIM_CA="), deployment:
            pass
        assert not [line for line in calls() if " up " in line]
    steps = ["building images", "building images, python 1/2", "building images, packages 3/3"]
    assert list(dict.fromkeys(reported)) == [*steps, *(["starting containers"] if code == "0" else [])]


def test_what_is_being_removed_is_removed_whatever_is_pressed(calls, deployment, monkeypatch):
    def pressed(*_words, **_how):
        raise KeyboardInterrupt

    deployment.start()
    monkeypatch.setattr(deployment, "stop", pressed)
    with monkeypatch.context() as patched:
        compose = deployment._compose

        def down(*words, **limit):
            signal.raise_signal(signal.SIGINT)
            return compose(*words, **limit)

        patched.setattr(deployment, "_compose", down)
        deployment.close()
    assert calls()[-1].endswith("down --volumes --timeout 1")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_cannot_be_removed_is_told_with_a_remedy(calls, deployment, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deployment.start()
    deployment._environment |= {"FAILS": " down ", "WHY": "Cannot connect to the Docker daemon"}
    with pytest.raises(RunError, match=rf"Cannot connect .*; the next start .* -p {deployment.name} down -v`"):
        deployment.close()
    remove_left()
    assert not (tmp_path / deployment.name).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_terminated_ends_as_by_ctrl_c(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("fails", "said"), [("compose version", "no compose plugin"), ("info", "no container engine")])
def test_an_engine_that_is_not_there_is_told_before_anything_starts(calls, deployment, monkeypatch, fails, said):
    monkeypatch.setenv("FAILS", fails)
    with pytest.raises(SetupError, match=said), deployment:
        pass
    assert not [line for line in calls() if "--project-name" in line]


def test_an_old_compose_and_a_lacking_right_are_told_before_anything_starts(calls, deployment, monkeypatch):
    monkeypatch.setenv("COMPOSE", "v2.17.3")
    with pytest.raises(SetupError, match=r"is v2\.17\.3, and 2\.23\.1 or newer is needed"), deployment:
        pass
    monkeypatch.setenv("COMPOSE", "2.26.1-4")
    monkeypatch.setenv("FAILS", "info")
    for where in ("WHY", "ASIDE"):  # 28 has the reason among its errors, 20.10 in its answer
        with monkeypatch.context() as patch:
            patch.setenv(where, "ERROR: Got permission denied while trying to connect")
            with pytest.raises(SetupError, match=r"denied.*be a member of its group"), deployment:
                pass
    assert not [line for line in calls() if "--project-name" in line]


def test_without_docker_it_is_told_what_is_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="compose plugin"):
        require_engine()


def test_the_newest_results_are_those_of_this_deployment(tmp_path, deployment):
    old = tmp_path / "runs" / "world" / "1"
    with pytest.raises(RunError, match="no results"):
        _ = deployment.folder
    old.mkdir(parents=True)
    (old / "manifest.json").write_text(json.dumps({}))
    assert deployment.folder == old
    other = tmp_path / "runs" / "world" / "2"  # of another deployment, up at the same time
    other.mkdir()
    (other / "manifest.json").write_text("{}")
    (other / ".origin").write_text(json.dumps({"root": "/", "project": "cosim-world-0"}))
    assert deployment.folder == old
