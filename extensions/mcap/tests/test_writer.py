"""Runs as MCAP files, read back with the format's own reader."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.geo import LocalFrame

pytest.importorskip("mcap")

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: farm
run: {duration: 8 s, step: 1 s, seed: 3}
geo: {origin: [39.36, 22.95, 60 m]}
adapters:
  vehicle:
    missions: {uav: {points: [[60 m, 0 m, 30 m], [60 m, 90 m, 30 m]]}}
  radio: {model: ci, exponent: 2.4, shadowing: 3 dB}
  continuum: {}
nodes:
  uav: {kind: uav, at: [0 m, 0 m, 0 m], vehicle: {frame: copter, speed: 12 m/s}}
  edge: {kind: base-station, at: [30 m, 10 m, 0 m], cpu: 4 x 1.8 GHz}
workloads:
  detect: {from: uav, arrivals: poisson 4 Hz, input: 100 kB, output: 1 kB, work: 300 Mcycles}
events:
  - {at: 4 s, do: fail, node: edge, for: 2 s}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("mcap")
    (root / "s.cosim.yaml").write_text(SCENARIO)
    return cosim.load(cosim.run(root / "s.cosim.yaml", out=root / "runs", driver="loop").folder)


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "run.mcap"
    done = CliRunner().invoke(app, ["export", "mcap", str(run.path), "--out", str(path), "--json"])
    assert done.exit_code == 0, done.output
    return path, json.loads(done.stdout)


@pytest.fixture(scope="module")
def messages(written):
    """(schema, topic, ns, document) in the order of the file."""
    from mcap.reader import make_reader

    with written[0].open("rb") as file:
        return [
            (schema, channel.topic, message.log_time, json.loads(message.data))
            for schema, channel, message in make_reader(file).iter_messages(log_time_order=False)
        ]


def test_every_row_of_every_signal_is_a_message(run, messages, written):
    found = {}
    for _, topic, moment, document in messages:
        _, word, *name = topic.split("/")
        if name and word != "location":
            assert name == [document["node"]]
            assert moment == round(document["time"] * 1e9)
            found.setdefault(word, []).append(tuple(document.values()))
    assert sorted(found) == [name for name in run.signals if run.sql(f'SELECT count(*) FROM "{name}"').fetchall()[0][0]]
    for signal, rows in found.items():
        recorded = [
            tuple(None if isinstance(v, float) and not math.isfinite(v) else v for v in row)
            for row in run.table(signal).fetchall()
        ]
        assert sorted(rows, key=repr) == sorted(recorded, key=repr)
    assert written[1]["messages"] == len(messages) == sum(written[1]["topics"].values())


def test_messages_stand_in_the_order_of_simulated_time(messages):
    moments = [moment for _, _, moment, _ in messages]
    assert moments == sorted(moments)
    assert moments[-1] == 8_000_000_000


def test_messages_fit_their_schemas(messages):
    jsonschema = pytest.importorskip("jsonschema")
    validators = {}
    for schema, _, _, document in messages:
        if schema.id not in validators:
            assert schema.encoding == "jsonschema"
            described = json.loads(schema.data)
            assert described["title"] == schema.name
            validators[schema.id] = jsonschema.Draft202012Validator(described)
            if "properties" in described:
                assert described["properties"].keys() == document.keys()
        validators[schema.id].validate(document)


def test_places_are_those_of_the_run(run, messages):
    frame = LocalFrame(39.36, 22.95, 60.0)
    recorded = {(round(t * 1e9), n): (x, y, z) for t, n, x, y, z, *_ in run.table("mobility").fetchall()}
    recorded[0, "edge"] = (30.0, 10.0, 0.0)
    headings = {(round(t * 1e9), n): h for t, n, *_, h in run.table("mobility").fetchall()}
    seen = {"tf": set(), "location": set()}
    for schema, topic, moment, document in messages:
        if topic == "/tf":
            assert schema.name == "foxglove.FrameTransforms"
            for one in document["transforms"]:
                key = (moment, one["child_frame_id"])
                seen["tf"].add(key)
                assert tuple(one["translation"].values()) == recorded[key]
                turn = one["rotation"]
                ahead = (1 - 2 * turn["z"] ** 2, 2 * turn["z"] * turn["w"])  # the x axis, turned
                heading = math.radians(headings.get(key, 90.0))
                np.testing.assert_allclose(ahead, (math.sin(heading), math.cos(heading)), atol=1e-12)
        elif topic.startswith("/location/"):
            assert schema.name == "foxglove.LocationFix"
            key = (moment, document["frame_id"])
            seen["location"].add(key)
            back = frame.to_local(document["latitude"], document["longitude"], document["altitude"])
            np.testing.assert_allclose(np.array(back, float), recorded[key], atol=1e-6)
            assert document["timestamp"] == {"sec": moment // 10**9, "nsec": moment % 10**9}
    assert seen["tf"] == seen["location"] == recorded.keys()


def test_events_are_a_log_and_the_scenario_is_attached(written, messages):
    from mcap.reader import make_reader

    log = [
        (moment, document["message"], document["level"])
        for _, topic, moment, document in messages
        if topic == "/events"
    ]
    assert log[0] == (4_000_000_000, "fail edge", 3)
    assert [moment for moment, *_ in log] == [4_000_000_000, 6_000_000_000]
    with written[0].open("rb") as file:
        reader = make_reader(file)
        (attached,) = reader.iter_attachments()
        assert "base-station" in attached.data.decode()
        (metadata,) = reader.iter_metadata()
        assert metadata.metadata["scenario"] == "farm"
        assert metadata.metadata["seed"] == "3"


def test_the_same_run_gives_the_same_bytes_and_files_are_not_replaced(run, written, tmp_path):
    runner, path = CliRunner(), tmp_path / "again.mcap"
    words = ["export", "mcap", str(run.path), "--out", str(path)]
    assert runner.invoke(app, words).exit_code == 0
    assert path.read_bytes() == written[0].read_bytes()
    again = runner.invoke(app, words)
    assert again.exit_code == 2
    assert "--force" in again.output
    assert runner.invoke(app, [*words, "--force"]).exit_code == 0
    assert runner.invoke(app, ["export", "mcap", str(tmp_path)]).exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["again.mcap"]


def test_many_nodes_share_the_topics_of_their_signals(run, tmp_path, monkeypatch):
    from cosim.extensions.mcap import writer

    monkeypatch.setattr(writer, "MOST_NODES", 1)
    monkeypatch.setattr(writer, "_AT_ONCE", 50)  # several windows of time
    made = writer.write_mcap(run, tmp_path / "few.mcap")
    assert {"/host", "/link", "/location", "/mobility", "/task", "/tf", "/events"} <= made.topics.keys()
    apart = writer.write_mcap(run, tmp_path / "apart.mcap")
    assert apart.messages == made.messages
