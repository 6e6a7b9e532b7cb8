"""The test kit: runs of agents in pytest, with answers in place of a model.

Its fixtures are in `pytest_plugin`, which a project names: as an entry point, pytest would rewrite
the assertions of every module of Holdfast, and import itself into the sandbox of workflows.
"""

from holdfast.testing.backtests import HoldfastBacktest as HoldfastBacktest
from holdfast.testing.backtests import assert_same_calls as assert_same_calls
from holdfast.testing.runs import HoldfastRun as HoldfastRun
from holdfast.testing.runs import RunUnderTest as RunUnderTest
from holdfast.testing.runs import assert_replays as assert_replays
from holdfast.testing.scripted_model import ModelRequest as ModelRequest
from holdfast.testing.scripted_model import call as call
