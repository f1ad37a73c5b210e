"""Settings of property tests."""

from hypothesis import HealthCheck, settings

# Examples share the fixtures of their test, which leave nothing behind. A busy machine takes long to make examples.
WITH_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
