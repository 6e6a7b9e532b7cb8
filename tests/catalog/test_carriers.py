"""Who carries a tool's calls out (an activity, an agent, the model itself), and its hooks."""

from holdfast.schemas.tool import Tool
from tests.catalog.catalog_folder import Folder

MODEL = "model: {endpoint: m}\n"
ANSWERED = "_output: {type: string}\n"


def kept(folder: Folder, text: str) -> Tool:
    """The tool `t` of a catalog with an agent `translator`."""
    folder.write("agents/translator.yaml", MODEL)
    folder.write("tools/t.yaml", text)
    return folder.load().definitions.tools["t"]


def test_a_tool_that_nothing_carries_out_is_answered_by_the_model_itself(shop: Folder) -> None:
    tool = kept(shop, "description: How the customer feels.\n" + ANSWERED)
    assert tool.latent
    assert tool.output == {"type": "string"}


def test_an_agent_may_be_what_carries_a_tool_out(shop: Folder) -> None:
    tool = kept(shop, "_delegate: translator\n_scopes: [state]\n_sideEffects: true\n")
    assert (tool.delegate, tool.activity, tool.latent) == ("translator", None, False)
    assert (tool.scopes, tool.once) == (["state"], True)


def test_a_delegate_comes_before_the_activity_of_the_tools_own_name(shop: Folder) -> None:
    shop.write("tools/charge.yaml", "_delegate: anonymous")
    assert shop.load().definitions.tools["charge"].activity is None


def test_agents_may_delegate_to_each_other_in_a_circle(shop: Folder) -> None:
    shop.write("agents/a.yaml", MODEL + "tools: [{_tool: ask_b, _delegate: b}]")
    shop.write("agents/sub/other.yaml", MODEL + "name: b\ntools: [{_tool: ask_a, _delegate: a}]")
    shop.write("agents/self.yaml", MODEL + "tools: [{_tool: again, _delegate: self}]")
    assert set(shop.load().agents) == {"a", "b", "self"}


def test_a_tools_hooks_are_kept_with_their_options(shop: Folder) -> None:
    text = """
        _activity: charge
        _prepare: charge
        _before: {type: generate, taskQueue: policies, retry: {maximumAttempts: 2}}
        properties: {_after: {const: charge}}
    """
    before = {"type": "generate", "taskQueue": "policies", "retry": {"maximumAttempts": 2}}
    assert kept(shop, text).hooks.to_json() == {
        "prepare": {"type": "charge"},
        "before": before,  # an activity of another worker may have any name
        "after": {"type": "charge"},
    }


def test_an_activity_that_a_hook_or_a_skill_names_is_bound(shop: Folder) -> None:
    module = """
        from temporalio import activity
        {activities}
    """
    one = "\n        @activity.defn\n        async def {name}(a: int, b: int) -> None: ..."
    bound = ("a_tool", "its_hook", "own", "in_skill", "hook_in_skill", "of_agent", "whole_skill")
    names = (*bound, "unused")
    activities = "".join(one.format(name=name) for name in names)
    shop.module("more.py", module.format(activities=activities))
    shop.write("tools/t.yaml", "_activity: a_tool\n_repair: its_hook")
    shop.write(
        "agents/a.yaml",
        MODEL
        + """
_before: of_agent
tools: [{_tool: z, _activity: own}]
skills:
- name: one
  tools: [{_tool: x, _activity: in_skill, _after: hook_in_skill}]
- {name: two, activity: whole_skill}
""",
    )
    assert [each.name for each in shop.load().unbound_activities] == ["charge", "unused"]
