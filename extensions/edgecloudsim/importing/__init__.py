"""EdgeCloudSim's three input files, unmodified, and the keys that the UNICAL extension adds.

`study_of` reads them into the parameters of one run, `read` into a scenario on the adapter
`offloading`. Keys that do nothing, are misspelt or contradict one another are reported with file and
line.
"""

from cosim.extensions.edgecloudsim.importing.scenario import read
from cosim.extensions.edgecloudsim.importing.study import study_of

__all__ = ["read", "study_of"]
