"""§8: one run for many, each with data of its own."""

from typing import Any

from tests.protocol.stage import ExampleRunner, agent, composed
from tests.support.model_server import Answer

MODERATOR = agent("""
name: moderator
model: {endpoint: fake, name: moderator}
instructions: You moderate comments by the policy.
calling: composed
reasoningForCall: false
tools:
- _tool: moderate
  description: Decide on a comment.
  properties: {text: {type: string}}
  required: [text]
  _output: {enum: [keep, hide]}
  _outputPath: †state.verdict
- _tool: hide
  description: Hide a comment.
  properties: {comment: {type: integer}}
  required: [comment]
  _outputPath: †state.done
""")


def comment(number: int, text: str) -> dict[str, Any]:
    """A comment: the input of an instance."""
    data = {"id": number, "text": text}
    return {"type": "data", "kind": "input", "data": data, "_instance": f"c{number}"}


async def test_many_comments_are_moderated_in_one_answer_each_by_its_instance(
    stage: ExampleRunner,
) -> None:
    def moderated(name: str, verdict: str) -> dict[str, Any]:
        text = "†input.text"
        return {"_tool": "moderate", "text": text, "_instance": name, "_output": verdict}

    stage.model(
        "moderator",
        composed(
            moderated("c1", "keep"),
            moderated("c2", "hide"),
            moderated("c3", "keep"),
            {"_tool": "hide", "comment": "†input.id", "_instance": "c2"},
            output="One comment of three is hidden.",
        ),
    )
    comments = [comment(1, "Thank you!"), comment(2, "You fool!"), comment(3, "Well, well.")]
    policy = {"type": "data", "kind": "policy", "data": {"insults": "hide"}}
    run = await stage.start(MODERATOR, context=[{"content": [policy, *comments]}])

    result = await run.result()
    assert result["instances"] == {
        "c1": {"verdict": "keep"},
        "c2": {"verdict": "hide", "done": "comment 2 is hidden"},
        "c3": {"verdict": "keep"},
    }
    assert (result["turns"], result["calls"]) == (1, 4)
    assert await run.handle.query("state", "c2") == result["instances"]["c2"]


EDITOR = agent("""
name: editor
model: {endpoint: fake, name: editor}
instructions: You have texts translated.
calling: composed
reasoningForCall: false
tools:
- _tool: translate
  description: Have a text translated into the instance's language.
  properties: {text: {type: string}}
  required: [text]
  _delegate: translator
  _scopes: [state]
  _outputPath: †state.translation
input: {type: object, properties: {text: {type: string}, customer: {type: string}}}
""")


async def test_a_translation_is_delegated_for_each_instance_with_its_own_state_alone(
    stage: ExampleRunner,
) -> None:
    def state(name: str, language: str) -> dict[str, Any]:
        data = {"language": language}
        return {"type": "data", "kind": "state", "data": data, "_instance": name}

    stage.model(
        "editor",
        composed(
            {"_tool": "translate", "text": "†input.text", "_instance": "de"},
            {"_tool": "translate", "text": "†input.text", "_instance": "fr"},
            output="Both are there.",
        ),
    )
    # The translator is an agent of the catalog: tests/protocol/catalog/agents/translator.md.
    stage.model("translator", Answer("Guten Tag"))
    run = await stage.start(
        EDITOR,
        input={"text": "Good day", "customer": "a secret"},
        state={"terms": {"Temporal": "Temporal"}},
        context=[{"content": [state("de", "German"), state("fr", "French")]}],
    )

    result = await run.result()
    assert result["instances"]["de"] == {"language": "German", "translation": "Guten Tag"}
    assert result["instances"]["fr"] == {"language": "French", "translation": "Guten Tag"}
    german, french = sorted(map(str, stage.requests("translator")), key=lambda one: "Fr" in one)
    assert "German" in german
    assert "French" not in german
    assert "French" in french
    assert all("Temporal" in one and "Good day" in one for one in (german, french))
    assert "secret" not in german + french
    child = run.delegate("t1c2")
    assert await child.handle.query("state") == {
        "terms": {"Temporal": "Temporal"},
        "language": "French",
    }
