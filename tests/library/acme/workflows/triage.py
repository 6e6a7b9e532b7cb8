"""A workflow of the OpenAI Agents SDK."""

from agents import Agent, Runner
from temporalio import workflow


@workflow.defn
class TriageWorkflow:
    """Has an agent classify a complaint."""

    @workflow.run
    async def run(self, complaint: str) -> str:
        """Return the class of the complaint."""
        agent = Agent[None](name="triage", instructions="Answer with the urgency.")
        result = await Runner.run(agent, complaint)
        return str(result.final_output)
