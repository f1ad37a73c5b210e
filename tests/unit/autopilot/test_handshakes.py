"""What ground stations ask when they meet a vehicle, in their order: each request has an answer.

QGroundControl: docs.qgroundcontrol.com, developer guide, Communication Flow (InitialConnectStateMachine).
MissionPlanner: ardupilot.org/dev, MAVLink Basics, Requesting Data, Get and Set Parameters. FTP's check sum is asked for
by pymavlink's own client.
"""

from __future__ import annotations

import logging
import re

import pytest
from pymavlink.mavftp import MAVFTP, FtpError

from cosim.autopilot.dialect import mavlink
from tests.unit.autopilot.wire import Station, station

UNTIL = 8.0  # s that a station waits at most for one of the answers
VERSION, METADATA, MODES, PROTOCOL = 148, 397, 435, 300  # messages that are asked for by MAV_CMD_REQUEST_MESSAGE


def ask(s, name, *values):
    s.send(name, *values)
    return s.run(UNTIL, step=0.1)


def command(s, number, *params):
    return ask(s, "command_long", 1, 1, number, 0, *params, *[0.0] * (7 - len(params)))


def kinds(messages):
    return {m.get_type() for m in messages}


def acknowledged(messages, number):
    return [m.result for m in messages if m.get_type() == "COMMAND_ACK" and m.command == number]


def parameters(s):
    """PARAM_REQUEST_LIST, and PARAM_REQUEST_READ for one that was lost."""
    got = [m for m in ask(s, "param_request_list", 1, 0) if m.get_type() == "PARAM_VALUE"]
    assert {m.param_index for m in got} == set(range(got[0].param_count))
    (again,) = [m for m in ask(s, "param_request_read", 1, 0, b"", 17) if m.get_type() == "PARAM_VALUE"]
    assert again.param_id == next(m.param_id for m in got if m.param_index == 17)


def plans(s):
    for kind in (0, 1, 2):  # mission, fence, rally points
        (count,) = [m for m in ask(s, "mission_request_list", 1, 1, kind) if m.get_type() == "MISSION_COUNT"]
        assert count.mission_type == kind
        for seq in range(count.count):
            assert "MISSION_ITEM_INT" in kinds(ask(s, "mission_request_int", 1, 1, seq, kind))
        s.send("mission_ack", 1, 1, 0, kind)


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_qgroundcontrol_s_opening(persona):
    s = station(persona, ready_after=10.0)
    assert "HEARTBEAT" in kinds(ask(s, "heartbeat", mavlink.MAV_TYPE_GCS, 8, 0, 0, 0, 3))
    got = command(s, 512, VERSION)
    assert acknowledged(got, 512) == [0]
    (version,) = [m for m in got if m.get_type() == "AUTOPILOT_VERSION"]
    assert version.capabilities & mavlink.MAV_PROTOCOL_CAPABILITY_MAVLINK2
    for number in (MODES, METADATA, PROTOCOL):  # it goes on without them when they are refused
        assert acknowledged(command(s, 512, number), 512)[0] != mavlink.MAV_RESULT_ACCEPTED
    parameters(s)
    plans(s)
    assert "HOME_POSITION" in kinds(command(s, 512, 242))
    assert acknowledged(command(s, 511, 30, 1e5), 511) == [0]
    assert not [text for text in s.texts() if text.startswith("Refused")]


def test_missionplanner_s_opening():
    s = station()
    ask(s, "heartbeat", mavlink.MAV_TYPE_GCS, 8, 0, 0, 0, 3)
    assert "AUTOPILOT_VERSION" in kinds(command(s, 520, 1))
    assert acknowledged(command(s, 42428), 42428) == [0]  # DO_SEND_BANNER
    assert any("Ardu" in text for text in s.texts())
    parameters(s)
    wanted = {2: "SYS_STATUS", 6: "GLOBAL_POSITION_INT", 10: "ATTITUDE", 11: "VFR_HUD", 1: "RAW_IMU", 3: "RC_CHANNELS"}
    for stream, kind in wanted.items():
        assert kind in kinds(ask(s, "request_data_stream", 1, 1, stream, 4, 1))
    assert "HOME_POSITION" in kinds(command(s, 410))  # GET_HOME_POSITION
    plans(s)
    assert not [text for text in s.texts() if text.startswith("Refused")]


class Master:
    """What pymavlink's clients need of a connection, in memory."""

    source_system, source_component = 255, 190

    def __init__(self, s: Station) -> None:
        self.mav, self._s, self._heard = self, s, []

    def file_transfer_protocol_send(self, network, system, component, payload):
        self._s.send("file_transfer_protocol", network, system, component, list(payload))

    def recv_match(self, **_):
        self._heard += [m for m in self._s.run(0.05) if m.get_type() == "FILE_TRANSFER_PROTOCOL"]
        return self._heard.pop(0) if self._heard else None


def crc32(data):
    """Bit by bit: the polynomial of IEEE 802.3, reflected, from 0 and not inverted, as ArduPilot's crc_crc32."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc


def test_pymavlink_s_client_gets_the_check_sum_of_a_file(caplog):
    caplog.set_level(logging.INFO)
    s = station()
    s.set_parameter("RTL_ALT", 4321.0)
    codes = []
    for name in ("@PARAM/param.pck", "none"):
        client = MAVFTP(Master(s), 1, 1)
        # s of wall time; it wants retries between its reads and its end
        client.ftp_settings.read_retry_time, client.ftp_settings.idle_detection_time = 0.5, 0.6
        codes.append(client.cmd_crc([name]).error_code)
    assert codes == [FtpError.Success, FtpError.FileNotFound]
    (shown,) = [re.search("crc: .* 0x([0-9a-f]{8})", text).group(1) for text in caplog.messages if "crc: " in text]
    assert int(shown, 16) == crc32(s.autopilot.parameters.packed())
