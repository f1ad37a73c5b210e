"""What the files leave open: numbers of devices, scenarios, policies, and the model they are made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from cosim.contract.hints import nearest
from cosim.extensions.edgecloudsim.importing.source import PropertySettings
from cosim.extensions.edgecloudsim.offloading.study import Architecture, Model

POLICIES: dict[Model, tuple[str, ...]] = {
    "app1": ("NEXT_FIT", "RANDOM_FIT", "WORST_FIT", "BEST_FIT", "FIRST_FIT"),
    "app2": ("NETWORK_BASED", "UTILIZATION_BASED", "HYBRID"),
    "app3": ("ONLY_EDGE", "ONLY_MOBILE", "HYBRID"),
    "app4": ("NETWORK_BASED", "UTILIZATION_BASED", "HYBRID", "FUZZY_BASED", "FUZZY_COMPETITOR"),
    "app5": ("RANDOM", "PREDICTIVE", "GAME_THEORY", "MAB", "AI_BASED"),
    "app6": ("ONLY_EDGE", "ONLY_MOBILE", "HYBRID"),
    "tutorial5": ("RANDOM_FIT", "WORST_FIT", "BEST_FIT", "FIRST_FIT", "NEXT_FIT"),
}
ARCHITECTURES: dict[str, Architecture] = {
    "SINGLE_TIER": "single-tier",
    "TWO_TIER": "two-tier",
    "TWO_TIER_WITH_EO": "two-tier-with-eo",
    "MOBILE_PROCESSING_SCENARIO": "single-tier",  # app3 has one architecture: devices and edge
    "ITS_SCENARIO": "two-tier",  # so has app5: edge and cloud
}
EXTENSION = ("energy_consumption_max_for_mobile_vm", "batteryCapacity", "min_core_for_mobile_vm")


@dataclass(frozen=True, slots=True)
class Choices:
    """All that the comma lists and the range of devices offer; the first of each is the default."""

    devices: tuple[int, ...]
    scenarios: tuple[str, ...]  # in the peer's words
    policies: tuple[str, ...]


def architecture_of(scenario: str) -> Architecture | None:
    """The architecture of one of the peer's scenarios; None for an unknown word.

    The scenarios of tutorial 5 are named after their queues, M/M/1 and M/M/2, and have the edge only.
    """
    return "single-tier" if scenario.startswith(("MM1", "MM2")) else ARCHITECTURES.get(scenario)


def words(text: str) -> str:
    """The peer's word as the project writes it: small letters and dashes."""
    return text.lower().replace("_", "-")


def choices_in(settings: PropertySettings) -> Choices:
    """What the files offer."""
    least = int(settings.number("min_number_of_mobile_devices", whole=True, least=1, most=2e6))
    most = int(settings.number("max_number_of_mobile_devices", whole=True, least=1, most=2e6))
    step = int(settings.number("mobile_device_counter_size", whole=True, least=1, most=2e6))
    if least > most:
        text = f"{least} is more than max_number_of_mobile_devices, {most}; EdgeCloudSim would simulate nothing"
        line = settings.line("min_number_of_mobile_devices")
        settings.findings.report("inverted", settings.file, line, "min_number_of_mobile_devices", text)
    counts = tuple(range(least, most + 1, max(step, 1))) or (least,)
    upper = [
        tuple(word.upper() for word in settings.words(key)) for key in ("simulation_scenarios", "orchestrator_policies")
    ]
    return Choices(counts, upper[0], upper[1])


def chosen(settings: PropertySettings, key: str, offered: tuple[str, ...], asked: str | None) -> str:
    """The value of a list: the one asked for, else its first."""
    if asked is None:
        return offered[0] if offered else ""
    word = asked.strip().upper().replace("-", "_")
    if word not in offered and offered:
        close = nearest(word, offered)
        hint = f"did you mean {close}?" if close else ""
        message = f"does not list {word}; it lists {', '.join(offered)}"
        settings.findings.wrong(settings.file, settings.line(key), key, message, hint)
        return offered[0]
    return word


def unknown(settings: PropertySettings, key: str, word: str, what: str, known: tuple[str, ...]) -> None:
    """Report that `word`, a value of `key`, is not known."""
    if word:
        message = f"'{word}' is no {what}"
        settings.findings.wrong(settings.file, settings.line(key), key, message, f"known: {', '.join(known)}")


def model_of(settings: PropertySettings, choices: Choices, extended: bool, asked: Model | None) -> Model:
    """The sample application whose model the files are made for."""
    if asked is not None:
        return asked
    policies, scenarios = set(choices.policies), set(choices.scenarios)
    if extended:
        return "app6"
    if "ITS_SCENARIO" in scenarios or policies & set(POLICIES["app5"]):
        return "app5"
    if "MOBILE_PROCESSING_SCENARIO" in scenarios or policies & {"ONLY_EDGE", "ONLY_MOBILE"}:
        return "app3"
    if policies & {"FUZZY_BASED", "FUZZY_COMPETITOR"}:
        return "app4"
    if policies & set(POLICIES["app2"]):
        return "app2"
    if any(word.startswith(("MM1", "MM2")) for word in scenarios):
        return "tutorial5"
    if policies and not policies & set(POLICIES["app1"]):
        key = "orchestrator_policies"
        message = f"no model knows the policies {', '.join(choices.policies)}"
        hint = f"say which with --model: {', '.join(get_args(Model))}"
        settings.findings.wrong(settings.file, settings.line(key), key, message, hint)
    return "app1"
