"""The company's plugins, which `holdfast worker --plugin` can have, too."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.converter import DataConverter
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.testing import ResponseBuilders, TestModel, TestModelProvider
from temporalio.plugin import SimplePlugin
from temporalio.worker import ActivityInboundInterceptor, Interceptor

from tests.library.acme.activities.orders import locate_order, look_up_customer, refund_order
from tests.library.acme.encoding import CompanyConverter
from tests.library.acme.workflows.orders import ImpureWorkflow, OrderWorkflow
from tests.library.acme.workflows.triage import TriageWorkflow


class CountingInterceptor(Interceptor):
    """Counts the executions of activities by type."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Count one execution."""
        kind = activity.info().activity_type
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return inner


def openai_agents() -> OpenAIAgentsPlugin:
    """Return Temporal's plugin for the OpenAI Agents SDK, with a model that is scripted."""
    model = TestModel(lambda: ResponseBuilders.output_message("urgent"))
    limits = ModelActivityParameters(start_to_close_timeout=timedelta(minutes=2))
    return OpenAIAgentsPlugin(limits, TestModelProvider(model))


WORKFLOWS: list[type] = [OrderWorkflow, ImpureWorkflow, TriageWorkflow]
ACTIVITIES: list[Callable[..., Any]] = [look_up_customer, locate_order, refund_order]


def work() -> SimplePlugin:
    """Return the company's workflows and activities, for a worker that is not its own."""
    return SimplePlugin("acme.work", workflows=WORKFLOWS, activities=ACTIVITIES)


class CompanyPlugin(SimplePlugin):
    """The company's conversions and interceptor."""

    def __init__(self) -> None:
        self.interceptor = CountingInterceptor()
        super().__init__(
            "acme",
            data_converter=_with_complex_numbers,
            interceptors=[self.interceptor],
        )


def _with_complex_numbers(converter: DataConverter | None) -> DataConverter:
    return replace(converter or DataConverter.default, payload_converter_class=CompanyConverter)
