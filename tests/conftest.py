"""Settings that every test shares: how many random examples, and that no test depends on the clock."""

from hypothesis import HealthCheck, settings

# No deadlines: the machines that run the tests are shared and noisy.
_quiet = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, suppress_health_check=_quiet)
settings.register_profile("long", deadline=None, max_examples=2_000, suppress_health_check=_quiet)
settings.load_profile("default")
