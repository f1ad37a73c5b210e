"""Detectors of jamming: trained on a data set, judged on scenes that they have not seen, kept in a plain file.

    from cosim.detect import Detector, judge, train
    detector = train("data/jamming", "forest", false_alarms=0.02)
    detector.save("detector.npz")
    judge(Detector.load("detector.npz"), "data/jamming")

Training needs scikit-learn (extra `learn`); a saved detector does not.
"""

from cosim.detect.detector import Detector
from cosim.detect.judge import ColumnContrast, Verdict, by_group, contrasts, judge
from cosim.detect.train import METHODS, train

__all__ = ["METHODS", "ColumnContrast", "Detector", "Verdict", "by_group", "contrasts", "judge", "train"]
