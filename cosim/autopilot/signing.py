"""MAVLink 2 signing (https://mavlink.io/en/guide/message_signing.html), set up by SETUP_SIGNING.

A frame is signed by the first 48 bits of SHA-256 over the secret key and the frame. A time stamp that grows in every
stream keeps recorded frames from being sent again. ArduPilot's rules: a key of zeros with a time of 0 switches it off,
nothing changes while armed, and of unsigned frames only those of radio modems are taken.
"""

from __future__ import annotations

from typing import Any

from cosim.autopilot.dialect import Message, mavlink

_RADIOS = {mavlink.MAVLINK_MSG_ID_RADIO_STATUS, mavlink.MAVLINK_MSG_ID_RADIO}


class Parser(mavlink.MAVLink):  # type: ignore[misc]  # pymavlink has no types here
    """One end's reader of frames, which are refused when they are not signed as they should be."""

    def __init__(self) -> None:
        super().__init__(None)
        self.robust_parsing = True

    def check_signature(self, msgbuf: bytearray, srcSystem: int, srcComponent: int) -> bool:  # noqa: N803 - pymavlink's
        """Check as pymavlink does, but a frame with a wrong signature does not change the time of its stream."""
        known = dict(self.signing.stream_timestamps)
        if super().check_signature(msgbuf, srcSystem, srcComponent):
            return True
        self.signing.stream_timestamps = known
        return False


class SigningKey:
    """The key of one vehicle, which all its links share; None until one is set."""

    def __init__(self) -> None:
        self.secret: bytes | None = None
        self.begin = 0  # 10 us since 2015, of the first frame

    def set(self, message: Message) -> None:
        """Take the key and the time from a SETUP_SIGNING."""
        secret = bytes(message.secret_key)
        self.begin = int(message.initial_timestamp)
        self.secret = secret if any(secret) or self.begin else None

    def apply(self, parser: Any, encoder: Any, link: int) -> None:  # noqa: ANN401 - pymavlink's ends
        """Let one link's ends sign and ask for signatures, or no more."""
        signing = encoder.signing = parser.signing
        signing.secret_key, signing.sign_outgoing = self.secret, self.secret is not None
        signing.timestamp, signing.link_id = max(signing.timestamp, self.begin), link & 0xFF
        signing.stream_timestamps = {}
        signing.allow_unsigned_callback = lambda _, number: number in _RADIOS
