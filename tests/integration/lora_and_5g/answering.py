"""Send back whatever comes: the software of the gateway."""

import socket

listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listening.bind(("0.0.0.0", 4000))
while True:
    listening.sendto(*listening.recvfrom(100))
