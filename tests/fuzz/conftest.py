"""`make test-fuzz` asks for this profile before any test is read."""

from hypothesis import settings

from tests.fuzz.profiles import LONG, SLOW

settings.register_profile(LONG, max_examples=5_000, deadline=None, suppress_health_check=SLOW)
