import pytest

pytest.importorskip("pymavlink")
