"""Daylight: how high the sun stands, and how bright it is on level ground."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

_EFFICACY = 110.0  # lm/W of daylight, between 105 for a clear and 120 for a grey sky (Littlefair 1985)
_TWILIGHT = 400.0  # lx with the sun on the horizon; Seidelmann 1992 gives 400 to 700
DARKEST = 1e-3  # lx, a night without a moon


def elevation(latitude: float, longitude: float, at: datetime) -> float:
    """Degrees of the sun above the horizon at a place in degrees; good to a quarter of a degree.

    Declination and equation of time by the series of Spencer (1971).
    """
    moment = at.astimezone(UTC)
    day = moment.timetuple().tm_yday - 1 + (moment.hour + moment.minute / 60.0 + moment.second / 3600.0) / 24.0
    year = 2.0 * math.pi * day / 365.0
    c1, s1, c2, s2 = math.cos(year), math.sin(year), math.cos(2 * year), math.sin(2 * year)
    c3, s3 = math.cos(3 * year), math.sin(3 * year)
    tilt = (
        0.006918 - 0.399912 * c1 + 0.070257 * s1 - 0.006758 * c2 + 0.000907 * s2 - 0.002697 * c3 + 0.00148 * s3
    )  # rad
    late = 229.18 * (0.000075 + 0.001868 * c1 - 0.032077 * s1 - 0.014615 * c2 - 0.040849 * s2)  # min
    minutes = moment.hour * 60.0 + moment.minute + moment.second / 60.0 + late + 4.0 * longitude
    hour = math.radians(minutes / 4.0 - 180.0)
    north = math.radians(latitude)
    up = math.sin(north) * math.sin(tilt) + math.cos(north) * math.cos(tilt) * math.cos(hour)
    return math.degrees(math.asin(max(-1.0, min(1.0, up))))


def illuminance(height: float, clouds: float = 0.0) -> float:
    """Lux on level ground with the sun at `height` degrees and `clouds` (0 to 1) of the sky covered.

    Irradiance of a clear sky 1098 sin h exp(-0.057 / sin h) W/m^2 (Haurwitz 1945), of which clouds leave
    1 - 0.75 n^3.4 (Kasten and Czeplak 1980), at 110 lm/W. Below the horizon it falls to a tenth every 2.5 degrees.
    """
    rises = math.sin(math.radians(height))
    clear = _EFFICACY * 1098.0 * rises * math.exp(-0.057 / rises) if rises > 1e-3 else 0.0
    dusk = _TWILIGHT * 10.0 ** (min(height, 0.0) / 2.5)
    return float(max((clear + dusk) * (1.0 - 0.75 * clouds**3.4), DARKEST))


@dataclass(frozen=True, slots=True)
class Daylight:
    """The light at a place from the moment `begins` on."""

    latitude: float  # deg
    longitude: float
    begins: datetime  # with its time zone
    clouds: float = 0.0

    def at(self, time: float) -> float:
        """Lux `time` s after the beginning."""
        moment = datetime.fromtimestamp(self.begins.timestamp() + time, UTC)
        return illuminance(elevation(self.latitude, self.longitude, moment), self.clouds)
