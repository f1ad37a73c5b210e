"""Runs as MCAP files, read back with the readers of the format's makers and of Rerun."""

import io
import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.geo import LocalFrame

pytest.importorskip("foxglove")
pytest.importorskip("google.protobuf")
pytest.importorskip("mcap")
pytest.importorskip("mcap_protobuf")

from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory

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
    """(schema, topic, ns, message) in the order of the file."""
    with written[0].open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        return [
            (schema, channel.topic, message.log_time, decoded)
            for schema, channel, message, decoded in reader.iter_decoded_messages(log_time_order=False)
        ]


def values(message):
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def stamp(message):
    return message.timestamp.seconds * 10**9 + message.timestamp.nanos


def test_every_row_of_every_signal_is_a_message(run, messages, written):
    found = {}
    for schema, topic, moment, message in messages:
        _, word, *name = topic.split("/")
        if schema.name.startswith("cosim."):
            assert schema.name == f"cosim.{word}"
            assert name == [message.node]
            assert moment == round(message.time * 1e9)
            found.setdefault(word, []).append(values(message))
    assert sorted(found) == [name for name in run.signals if run.sql(f'SELECT count(*) FROM "{name}"').fetchall()[0][0]]
    for signal, rows in found.items():
        table = run.table(signal)
        assert list(rows[0]) == table.columns
        recorded = [repr(["" if v is None else v for v in row]) for row in table.fetchall()]  # NaN is NaN
        assert sorted(repr(list(row.values())) for row in rows) == sorted(recorded)
    assert written[1]["messages"] == len(messages) == sum(written[1]["topics"].values())


def test_messages_stand_in_the_order_of_simulated_time(messages):
    moments = [moment for _, _, moment, _ in messages]
    assert moments == sorted(moments)
    assert moments[-1] == 8_000_000_000


def test_fields_have_meanings_and_units(written):
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    with written[0].open("rb") as file:
        schemas = {schema.name: schema for schema in make_reader(file).get_summary().schemas.values()}
    assert {schema.encoding for schema in schemas.values()} == {"protobuf"}
    (described,) = descriptor_pb2.FileDescriptorSet.FromString(schemas["cosim.mobility"].data).file
    names = [field.name for field in described.message_type[0].field]
    comments = [one.leading_comments for one in described.source_code_info.location]
    assert dict(zip(names, comments, strict=True))["speed"] == "ground speed, m/s"


def test_places_are_those_of_the_run(run, messages):
    frame = LocalFrame(39.36, 22.95, 60.0)
    recorded = {(round(t * 1e9), n): (x, y, z) for t, n, x, y, z, *_ in run.table("mobility").fetchall()}
    recorded[0, "edge"] = (30.0, 10.0, 0.0)
    headings = {(round(t * 1e9), n): h for t, n, *_, h in run.table("mobility").fetchall()}

    def agrees(key, place, turn):
        assert (place.x, place.y, place.z) == recorded[key]
        ahead = (1 - 2 * turn.z**2, 2 * turn.z * turn.w)  # the x axis, turned
        heading = math.radians(headings.get(key, 90.0))
        np.testing.assert_allclose(ahead, (math.sin(heading), math.cos(heading)), atol=1e-12)

    seen = {"tf": set(), "pose": set(), "location": set()}
    for schema, topic, moment, message in messages:
        if topic == "/tf":
            assert schema.name == "foxglove.FrameTransforms"
            for one in message.transforms:
                assert (one.parent_frame_id, stamp(one)) == ("map", moment)
                seen["tf"].add((moment, one.child_frame_id))
                agrees((moment, one.child_frame_id), one.translation, one.rotation)
        elif topic.startswith("/pose/"):
            assert (schema.name, message.frame_id, stamp(message)) == ("foxglove.PoseInFrame", "map", moment)
            key = (moment, topic.removeprefix("/pose/"))
            seen["pose"].add(key)
            agrees(key, message.pose.position, message.pose.orientation)
        elif topic.startswith("/location/"):
            assert (schema.name, stamp(message)) == ("foxglove.LocationFix", moment)
            key = (moment, message.frame_id)
            seen["location"].add(key)
            back = frame.to_local(message.latitude, message.longitude, message.altitude)
            np.testing.assert_allclose(np.array(back, float), recorded[key], atol=1e-6)
            assert message.heading == math.radians(headings.get(key, 90.0))
    assert seen["tf"] == seen["pose"] == seen["location"] == recorded.keys()


def test_events_are_a_log_and_the_scenario_is_attached(written, messages):
    log = [(moment, message.message, message.level) for _, topic, moment, message in messages if topic == "/events"]
    assert log[0] == (4_000_000_000, "fail edge", 3)
    assert [moment for moment, *_ in log] == [4_000_000_000, 6_000_000_000]
    with written[0].open("rb") as file:
        reader = make_reader(file)
        (attached,) = reader.iter_attachments()
        assert "base-station" in attached.data.decode()
        (metadata,) = reader.iter_metadata()
        assert metadata.metadata["scenario"] == "farm"
        assert metadata.metadata["seed"] == "3"


def test_a_picture_is_there_once_for_each_that_was_taken():
    import foxglove
    from foxglove.mcap import MCAPWriteOptions

    from cosim.extensions.foxglove.signals import SignalMessage
    from cosim.extensions.foxglove.topics import Topics

    numbers = ("taken", "x", "y", "heading", "pixel", "light")
    columns = {"time": ("double", ""), "node": ("string", ""), **dict.fromkeys(numbers, ("double", ""))}
    topics = Topics(None, {"picture": SignalMessage("picture", columns)}, {}, lambda node, at: f"{node} {at}".encode())
    file = io.BytesIO()
    with foxglove.open_mcap(file, context=topics.context, writer_options=MCAPWriteOptions()):
        for time, taken in ((1.0, math.nan), (2.0, 1.5), (3.0, 1.5), (4.0, 3.5)):
            topics.moment(time, {"picture": [(time, "uav", taken, 5.0, 5.0, 90.0, 0.005, 2e4)]})
    reader = make_reader(io.BytesIO(file.getvalue()), decoder_factories=[DecoderFactory()])
    found = [
        (schema.name, message.log_time, stamp(image), image.frame_id, image.format, image.data)
        for schema, _, message, image in reader.iter_decoded_messages(topics=["/image/uav"])
    ]
    assert found == [
        ("foxglove.CompressedImage", 2 * 10**9, 1_500_000_000, "uav", "png", b"uav 1.5"),
        ("foxglove.CompressedImage", 4 * 10**9, 3_500_000_000, "uav", "png", b"uav 3.5"),
    ]


@pytest.mark.slow
def test_rerun_reads_every_topic(written, tmp_path):
    """Its entities are the topics; those of Foxglove's types have components of its own."""
    pytest.importorskip("rerun")

    def rerun(*words):  # asks about statistics of its use where it has not been before
        command, home = [sys.executable, "-m", "rerun", *map(str, words)], {**os.environ, "HOME": str(tmp_path)}
        return subprocess.run(command, env=home, capture_output=True, text=True, check=True).stdout

    out = tmp_path / "run.rrd"
    rerun("mcap", "convert", written[0], "--output", out, "--disable-raw-fallback")
    parts = re.findall(r"with (\d+) rows? .* - (/\S+) - data columns: \[(.*)\]", rerun("rrd", "print", out))
    read = {topic: columns for _, topic, columns in parts if "McapChannel" not in columns and "__mcap" not in topic}
    assert read.keys() == written[1]["topics"].keys()
    assert sum(int(rows) for rows, topic, columns in parts if read.get(topic) == columns) == written[1]["messages"]
    for topic, columns in read.items():
        word = topic.split("/")[1]
        own = {"tf": "Transform3D:", "pose": "InstancePoses3D:", "location": "GeoPoints:", "events": "TextLog:"}
        assert own.get(word, f"cosim.{word}:message") in columns


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
    from cosim.extensions.foxglove import topics, writer

    monkeypatch.setattr(topics, "MOST_NODES", 1)
    monkeypatch.setattr(writer, "_AT_ONCE", 50)  # several windows of time
    made = writer.write_mcap(run, tmp_path / "few.mcap")
    assert {"/host", "/link", "/location", "/mobility", "/task", "/tf", "/events"} <= made.topics.keys()
    apart = writer.write_mcap(run, tmp_path / "apart.mcap")
    assert apart.messages == made.messages
