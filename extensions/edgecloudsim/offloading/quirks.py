"""Behaviour of the peer simulators that is wrong or odd, each under a name of its own.

The corrected model is the one with no quirks. A study that is to give the peer's figures takes all
quirks of its model, `compatible(model)`; single ones show what each of them is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

from cosim.extensions.edgecloudsim.offloading.study import Model

PLACES: frozenset[Model] = frozenset({"app1", "app2", "app3", "app4", "app6", "tutorial5"})
BASIC: frozenset[Model] = frozenset({"app1", "tutorial5"})
RELAY: frozenset[Model] = frozenset({"app2", "app4"})
TABLES: frozenset[Model] = frozenset({"app2", "app3", "app4", "app6"})
VEHICLES: frozenset[Model] = frozenset({"app5"})
ALL: frozenset[Model] = PLACES | VEHICLES


def _only(*models: Model) -> frozenset[Model]:
    return frozenset(models)


@dataclass(frozen=True, slots=True)
class OffloadingQuirk:
    """One behaviour: whose it is, and why it is wrong or odd."""

    models: frozenset[Model]
    why: str


QUIRKS: dict[str, OffloadingQuirk] = {
    "integer-sizes": OffloadingQuirk(
        ALL, "Drawn sizes and lengths are cut to integers and floored at 1, which shifts small means."
    ),
    "processing-tick": OffloadingQuirk(
        ALL, "Processors are looked at in steps of 10 to 20 ms, so that short executions take longer than they do."
    ),
    "warm-up-rejections-counted": OffloadingQuirk(
        ALL, "A task rejected during warm-up is counted, a served one is not."
    ),
    "warm-up-load-counted": OffloadingQuirk(
        ALL, "Mean loads of machines include the warm-up period, all other means do not."
    ),
    "cost-never-set": OffloadingQuirk(ALL, "Prices are read and the reported cost is zero all the same."),
    "uploads-not-reserved": OffloadingQuirk(
        PLACES, "A machine chosen before the upload may be full when it arrives; it takes the task beyond 100 %."
    ),
    "dwell-by-access-point-number": OffloadingQuirk(
        PLACES, "The dwell time of a place is looked up at the position given by its access point's number."
    ),
    "means-divided-by-applications": OffloadingQuirk(
        BASIC | RELAY,
        "Weighted means of intervals and sizes are divided once more by the number of applications, and "
        "intervals are averaged where rates add.",
    ),
    "wan-mean-running-sum": OffloadingQuirk(
        _only("app1"), "The WAN's mean interval sums up partial sums, so that it depends on the applications' order."
    ),
    "unstable-queue-passes": OffloadingQuirk(
        BASIC | RELAY,
        "The delay of an overloaded queue is negative, and the propagation delay can make it positive again.",
    ),
    "wan-delay-holds-wlan": OffloadingQuirk(
        _only("app1"), "The WLAN's part of the way to the cloud is booked as delay of the WAN."
    ),
    "lan-on-return-only": OffloadingQuirk(
        _only("app1"), "Another place's host costs two LAN delays on the way back and none on the way there."
    ),
    "cloud-draw-inclusive": OffloadingQuirk(
        BASIC, "The cloud is chosen when an integer in 0..100 is at most the percentage: 21 of 101 for 20 %."
    ),
    "random-fit-tries-once": OffloadingQuirk(
        BASIC, "A random machine is tried once; that others have room is not seen."
    ),
    "one-host-per-place": OffloadingQuirk(
        RELAY, "A host's number is used as its place's number, so that only one host per place works."
    ),
    "transfers-counted-where-submitted": OffloadingQuirk(
        TABLES, "A download counts at the access point of the submission, wherever the device is by then."
    ),
    "man-rate-constant": OffloadingQuirk(RELAY, "The MAN has 1300 * 1024 kbit/s whatever rate is given."),
    "man-sizes-never-measured": OffloadingQuirk(
        RELAY, "The MAN's estimator averages the sizes that it has used itself, so the first guess stays for ever."
    ),
    "man-idle-keeps-estimate": OffloadingQuirk(
        RELAY, "After an interval without requests the MAN's old load stays assumed."
    ),
    "probing-is-traffic": OffloadingQuirk(
        _only("app4"), "A policy that asks for the MAN's delay counts as a request to it."
    ),
    "idle-power-per-call": OffloadingQuirk(
        _only("app6"),
        "Every submission of any device and every sample adds a second of idle power to every device, "
        "so that idle power grows with the number of devices.",
    ),
    "dynamic-power-by-image-size": OffloadingQuirk(
        _only("app6"), "The power of computing is reckoned from a machine's storage image, not from executed work."
    ),
    "kilobytes-taken-as-bits": OffloadingQuirk(
        _only("app6"), "Radio energy is 8000 times too small: kB are taken as bits."
    ),
    "radio-energy-swapped": OffloadingQuirk(
        _only("app6"),
        "Transmission takes the figure of reception and the reverse; local execution pays for a cellular transfer.",
    ),
    "network-energy-missing": OffloadingQuirk(
        _only("app6"), "Access points, base stations, MAN and WAN take no energy."
    ),
    "edge-on-cloud-power": OffloadingQuirk(
        _only("app6"), "Edge servers draw the power of cloud machines from the battery of a device, and die of it."
    ),
    "cloud-energy-missing": OffloadingQuirk(_only("app6"), "There is no energy model of the cloud: zero is reported."),
    "links-restore-last": OffloadingQuirk(
        VEHICLES,
        "After a window without tasks a link is taken for as loaded as it last was when stable; an overloaded "
        "one recovers for that alone.",
    ),
    "links-fall-slowly": OffloadingQuirk(
        VEHICLES, "After warm-up a falling load of a link counts for a quarter only, a rising one in full."
    ),
    "links-begin-by-whole-devices": OffloadingQuirk(
        VEHICLES,
        "Devices per access point are divided as integers for the first guess of a link's load, so that fewer "
        "devices than access points load none; a run whose first guess is unstable is refused.",
    ),
    "starts-on-whole-metres": OffloadingQuirk(VEHICLES, "Vehicles begin on whole metres."),
    "result-skips-man": OffloadingQuirk(
        VEHICLES,
        "The result of another place's machine costs no time on the way back unless the vehicle has moved on.",
    ),
    "predictive-unnormalised": OffloadingQuirk(
        VEHICLES,
        "Failure rates are weighted by 4, 3, 2, 1 without division by 10, so that those of an idle system pass "
        "the threshold and service times are never looked at.",
    ),
    "mab-divides-by-old-count": OffloadingQuirk(
        VEHICLES, "The mean of an arm is divided by the trials before the new one, so that it grows with each trial."
    ),
    "mab-per-instruction": OffloadingQuirk(
        VEHICLES,
        "Costs are in s per MI, thousands of times smaller than the term for exploration, which then decides alone.",
    ),
    "game-earlier-players-only": OffloadingQuirk(
        VEHICLES, "The load that a vehicle expects counts the vehicles with smaller numbers only."
    ),
    "game-interval-as-rate": OffloadingQuirk(
        VEHICLES, "The interval between tasks over 20 s is taken for their rate: who sends most counts least."
    ),
    "game-begins-alike": OffloadingQuirk(
        VEHICLES,
        "Before its first task every vehicle, even one that never sends, counts with the share 0.33 and the rate 0.5.",
    ),
    "expected-skips-links": OffloadingQuirk(
        VEHICLES,
        "The time that mab begins with and game-theory compares leaves the MAN to the edge and the WLAN to the road "
        "side out; a failing link stands for 9 s (WLAN), 7 s (WAN) or 8 s (GSM).",
    ),
    "cloud-time-in-whole-seconds": OffloadingQuirk(
        VEHICLES, "The expected time of computing in the cloud is cut to whole seconds, which makes it 0."
    ),
    "dead-devices-go-on": OffloadingQuirk(
        _only("app6"),
        "Devices with an empty battery move, make tasks and finish those in flight; only local execution is refused.",
    ),
}


def compatible(model: Model) -> frozenset[str]:
    """The quirks that together make up the peer's own behaviour in this model."""
    return frozenset(name for name, quirk in QUIRKS.items() if model in quirk.models)


def field(name: str) -> str:
    """The quirk's field in the kernel's state."""
    return name.replace("-", "_")


def table() -> str:
    """All quirks as the Markdown table of docs/benchmarks/offloading.md."""
    rows = [f"| `{name}` | {', '.join(sorted(quirk.models))} | {quirk.why} |" for name, quirk in sorted(QUIRKS.items())]
    return "\n".join(["| quirk | models | why it is wrong or odd |", "|---|---|---|", *rows])
