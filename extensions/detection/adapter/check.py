"""For what the detector refuses a scene."""

from __future__ import annotations

from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, SetupError
from cosim.extensions.detection.adapter.config import DetectorConfig


def problems(config: DetectorConfig, context: Context) -> list[Problem]:
    """A file that is no detector, or one that was trained with other signals."""
    path = context.path(config.model)
    if not path.is_file():
        return []  # reported by the check of the files that a scenario names
    from cosim.extensions.detection.detect.detector import Detector  # needs numpy

    where = f"adapters.{context.name}"
    try:
        detector = Detector.load(path)
    except SetupError as error:
        return [Problem(str(error), f"{where}.model", hint="make one with 'cosim detect train'")]
    if detector.facts.get("offline"):
        text = "the detector was trained on a table, or on rows of other nodes or times, which it does not see on line"
        return [Problem(text, f"{where}.model", hint="train one on signals alone: cosim dataset RUN --signals ue,gnb")]
    if detector.signals != config.signals:
        words = ", ".join(detector.signals)
        text = f"the detector was trained with the signals {words}, not with {', '.join(config.signals)}"
        return [Problem(text, f"{where}.signals", hint=f"write signals: [{words}]")]
    return []
