"""What holds for all tests."""

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")
