"""Watches of runs to which no worker sends its answers."""

from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.client.stream.run_watch import RunWatches


def watches() -> RunWatches:
    return RunWatches(LiveAnswers(pydantic_data_converter))
