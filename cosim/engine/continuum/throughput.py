"""Measured throughput of shared wireless and wide-area links, by the number of transfers under way.

The figures are those published with the edge computing studies of C. Sonmez, A. Ozgovde and C. Ersoy
("Fuzzy Workload Orchestration for Edge Computing", IEEE Transactions on Network and Service
Management 16(2), 2019, doi 10.1109/TNSM.2019.2901346): WLAN throughput of 802.11n, and WAN throughput
of a shared broadband access line. In kbit/s; position n holds for a transfer that begins while n
others are under way. Beyond the last position there is no throughput left.
"""

from __future__ import annotations

import numpy as np

WLAN_GAIN = 3.0  # of 802.11ac over the measured 802.11n, as the studies take it

# fmt: off
WLAN_KBPS = np.array([
    88040.279, 45150.982, 30303.641, 27617.211, 24868.616, 22242.296, 20524.064, 18744.889, 17058.827, 15690.455,
    14127.744, 13522.408, 13177.631, 12811.33, 12584.387, 12135.161, 11705.638, 11276.116, 10846.594, 10417.071,
    9987.549, 9367.587, 8747.625, 8127.663, 7907.701, 7887.739, 7690.831, 7393.922, 7297.014, 7100.106, 6903.197,
    6701.986, 6500.776, 6399.565, 6098.354, 5897.143, 5552.127, 5207.111, 4862.096, 4517.08, 4172.064, 4092.922,
    4013.781, 3934.639, 3855.498, 3776.356, 3697.215, 3618.073, 3538.932, 3459.79, 3380.649, 3274.611, 3168.573,
    3062.536, 2956.498, 2850.461, 2744.423, 2638.386, 2532.348, 2426.31, 2320.273, 2283.828, 2247.383, 2210.939,
    2174.494, 2138.049, 2101.604, 2065.16, 2028.715, 1992.27, 1955.825, 1946.788, 1937.751, 1928.714, 1919.677,
    1910.64, 1901.603, 1892.566, 1883.529, 1874.492, 1865.455, 1833.185, 1800.915, 1768.645, 1736.375, 1704.106,
    1671.836, 1639.566, 1607.296, 1575.026, 1542.756, 1538.544, 1534.331, 1530.119, 1525.906, 1521.694, 1517.481,
    1513.269, 1509.056, 1504.844, 1500.631,
])
WAN_KBPS = np.array([
    20703.973, 12023.957, 9887.785, 8915.775, 8259.277, 7560.574, 7262.14, 7155.361, 7041.153, 6994.595, 6653.232,
    6111.868, 5570.505, 5029.142, 4487.779, 3899.729, 3311.68, 2723.631, 2135.582, 1547.533, 1500.252, 1452.972,
    1405.692, 1358.411, 1311.131,
])
# fmt: on
