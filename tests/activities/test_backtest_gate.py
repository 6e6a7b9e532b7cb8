"""What a backtest's worker lets through."""

from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from holdfast.activities.backtest.gate import BacktestGate


async def test_no_activity_of_production_runs_even_if_one_is_scheduled() -> None:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, activity_type="pay")
    nothing = cast(Any, None)
    gate = BacktestGate(nothing, client=nothing, backtests={}, model=None)
    with pytest.raises(ApplicationError, match="a backtest runs no activity `pay`"):
        await environment.run(gate.execute_activity, nothing)
