"""The plugins of the company's worker, of which one is Holdfast's."""

from pathlib import Path

from temporalio.plugin import SimplePlugin

from holdfast import HoldfastPlugin
from tests.library.acme.agents import support
from tests.library.acme.plugins import CompanyPlugin, openai_agents

DESK = Path(__file__).parent / "desk"


def plugins(endpoints: Path | None = None, *, is_first: bool = False) -> list[SimplePlugin]:
    """Return the company's plugins and that of Holdfast, which is the first or the last one."""
    holdfast = HoldfastPlugin(agents=[support], catalog=DESK, endpoints=endpoints)
    theirs: list[SimplePlugin] = [openai_agents(), CompanyPlugin()]
    return [holdfast, *theirs] if is_first else [*theirs, holdfast]
