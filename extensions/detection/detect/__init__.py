"""Detectors of jamming: trained on a data set, judged on scenes that they have not seen, kept in a plain file.

    from cosim.extensions.detection.detect import Detector, judge, train
    detector = train("data/jamming", "forest", false_alarms=0.02)
    detector.save("detector.npz")
    judge(Detector.load("detector.npz"), "data/jamming")

Training needs scikit-learn (extra `learn`); a saved detector does not.
"""

from cosim.extensions.detection.detect.detector import Detector
from cosim.extensions.detection.detect.judge import ColumnContrast, Verdict, by_group, contrasts, judge
from cosim.extensions.detection.detect.train import METHODS, quieted, train

__all__ = ["METHODS", "ColumnContrast", "Detector", "Verdict", "by_group", "contrasts", "judge", "quieted", "train"]
