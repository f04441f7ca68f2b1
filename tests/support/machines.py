"""The machines of `gpudoctor.testing`, by the name under which the tests know them."""

from gpudoctor.testing import *  # noqa: F403
