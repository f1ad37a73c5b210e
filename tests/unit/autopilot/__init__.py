import pytest

pytest.importorskip("pymavlink")  # by which the modules of this folder speak
