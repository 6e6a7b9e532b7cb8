"""Agents with constant calls or patterns, limits and budgets, that do not load."""

import genai_prices

from tests.contract.wrong_inputs.loading import MODEL, WrongInput, agent

LOOK_UP = "calls: [{_tool: look_up, order_id: '7'}]\n"
EACH = (
    "tools: [{_tool: find, _activity: look_up, _each: true,"
    " properties: {order_id: {type: string}}}]\n"
)


def limits(name: str, text: str, *says: str) -> WrongInput:
    """The file of limits."""
    return WrongInput(
        name, {"limits.yaml": text}, [f"limits.yaml:{line}" for line in says], editor=True
    )


CALLS = [
    agent(
        "calls beside a model",
        MODEL + LOOK_UP,
        "1: `model`: an agent with `calls` has no model; leave out `model`, or `calls`",
    ),
    agent(
        "instructions for constant calls",
        LOOK_UP + "instructions: Be kind.\n",
        "2: `instructions`: an agent with `calls` has no model; leave out `instructions`, or"
        " `calls`",
    ),
    agent(
        "no calls in place of a model",
        "calls: []\n",
        "1: `calls`: `[]` does not fit; write at least 1",
    ),
    agent(
        "an answer without calls or a model",
        "skills: [{name: a, activity: charge}]\nanswer: done\n",
        "1: `answer` is of a `model` or of `calls`; add one, or leave it out",
    ),
    agent(
        "an answer of a model that refers to nothing",
        MODEL + "answer: †state.receipts[x].id\n",
        "1: `answer`: `†state.receipts[x].id` is no reference; write †state.items[0].id,"
        " and †{state.name} in a longer text",
        editor=False,
    ),
    agent(
        "a hook after the answer of constant calls",
        LOOK_UP + "_afterAnswer: charge\n",
        "2: `_afterAnswer`: an agent with `calls` has no model; leave out `_afterAnswer`, or"
        " `calls`",
    ),
    agent(
        "a hook after the answer that no one registers",
        MODEL + "_afterAnswer: chrge\n",
        "2: `_afterAnswer`: this worker has no activity `chrge`; did you mean `charge`? (an"
        " activity of another worker needs its `taskQueue`)",
        editor=False,
    ),
    agent(
        "a hook after the answer with places in its arguments",
        MODEL + "_afterAnswer: {type: charge, input: [output]}\n",
        "2: `_afterAnswer.input`: this option is not for hooks; leave it out",
    ),
    agent(
        "a hook after the answer by another name",
        MODEL + "_afterAnswr: charge\n",
        "2: unknown field `_afterAnswr`; did you mean `_afterAnswer`?",
    ),
    agent(
        "skills for a model without one",
        "skills: [{name: a, activity: charge}, {name: b}]\n",
        "1: `model` is missing; add it, or `calls` in its place",
    ),
    agent(
        "a call without a tool",
        "calls:\n- {_tool: look_up, order_id: '7'}\n- {order_id: '7'}\n",
        "3: `calls[1]`: `_tool` is missing; name the tool of the call in it",
    ),
    agent(
        "a call of a tool that does not exist",
        "calls: [{_tool: lookup}]\n",
        "1: `calls[0]._tool`: there is no tool `lookup`; did you mean `look_up`?",
        editor=False,
    ),
    agent(
        "a call for a model to answer",
        "tools: [{_tool: mood, _output: {type: string}}]\ncalls: [{_tool: mood}]\n",
        "2: `calls[0]._tool`: `mood` is for a model to answer, and an agent with `calls` has none;"
        " name a tool with an activity, or with an agent as its `_delegate`",
        editor=False,
    ),
    agent(
        "constant arguments that do not fit",
        "calls: [{_tool: look_up, order_id: [7], amount: †input.amount}]\n",
        "1: `calls[0]`: the arguments do not fit the tool `look_up`: order_id: [7] is not of type"
        ' "string"; change them, or refer to a value',
        editor=False,
    ),
    agent(
        "a meta-property of a call misspelt",
        "calls: [{_tool: look_up, order_id: '7', _outputPth: †state.a}]\n",
        "1: `_outputPth` is no meta-property of a call; did you mean `_outputPath`?",
        editor=False,
    ),
    agent(
        "a call that writes nowhere",
        "calls: [{_tool: look_up, order_id: '7', _outputPath: state.a}]\n",
        "1: `calls[0]._outputPath`: `state.a` names no place to write to; write it like"
        " `†state.order.id`",
        editor=False,
    ),
    agent(
        "a reference that is none",
        "calls: [{_tool: look_up, order_id: '†state.orders[last].id'}]\n",
        "1: `calls[0].order_id`: `†state.orders[last].id` is no reference; write"
        " †state.items[0].id, and †{state.name} in a longer text",
        editor=False,
    ),
    agent(
        "a loop of a tool that runs for no list",
        "calls: [{_tool: look_up, _each: †input.orders, order_id: †item.id}]\n",
        "1: `calls[0]._each`: `look_up` runs for no list; leave it out, or write `_each: true` in"
        " the tool",
        editor=False,
    ),
    agent(
        "an item without a loop",
        EACH + "calls: [{_tool: find, order_id: †item.id}]\n",
        "2: `calls[0]`: `†item` is an item of a list, and the call has none; name the list in"
        " `_each`",
        editor=False,
    ),
    agent(
        "a loop over no list",
        EACH + "calls: [{_tool: find, _each: orders, order_id: †item.id}]\n",
        "2: `calls[0]._each`: this is no list; write a list, or refer to one: †state.order.lines",
        editor=False,
    ),
    agent(
        "a loop over too many items",
        EACH + f"calls: [{{_tool: find, _each: {[*range(101)]}, order_id: †item}}]\n",
        "2: `calls[0]._each`: the list has 101 items, and a loop runs for at most 100; split it",
        editor=False,
    ),
    agent(
        "a hook around requests that are never made",
        "calls: [{_tool: look_up, order_id: '7'}]\n_onModelError: charge\n",
        "2: `_onModelError`: an agent with `calls` has no model; leave out `_onModelError`, or"
        " `calls`",
    ),
    agent(
        "more calls than the budget allows",
        "budget: {total: {maxCalls: 1}}\ncalls: [{_tool: look_up, order_id: a}, {_tool: look_up,"
        " order_id: b}]\n",
        "2: `calls` has 2, and the budget's `maxCalls` is 1; raise it, or make fewer calls",
        editor=False,
    ),
    agent(
        "a pattern that matches nothing",
        MODEL + 'tools: ["lookup*"]\n',
        "2: `tools[0]`: no tool matches `lookup*`; did you mean `look_up`?",
        editor=False,
    ),
]
LIMITS = [
    limits(
        "a limit of nothing",
        "concurrency: 0\n",
        "1: `concurrency`: `0` does not fit; write 1 or more",
    ),
    limits(
        "a signature that need not be",
        "approval: {signed: false}\n",
        "1: `approval.signed`: `false` does not fit; write `true`",
    ),
    limits(
        "a limit that loosens",
        "approval: {require: never}\n",
        "1: `approval.require`: `never` does not fit; write `side_effects` or `always`",
    ),
    limits(
        "a limit misspelt",
        "budgets: {maxTurns: 8}\n",
        "1: unknown field `budgets`; did you mean `budget`?",
    ),
    limits(
        "a limit without a unit",
        "toolTimeout: 30\n",
        '1: `toolTimeout`: `30` does not fit; a duration is a number and a unit: "500ms", "30s",'
        ' "5m", "24h", "7d"',
    ),
]
USES_M = {"agents/a.yaml": MODEL}
PRICED = "m: {provider: script, file: script.yaml, price: {input: 1, output: 2, currency: EUR}}\n"


def budgets(name: str, text: str, *says: str, editor: bool | None = None) -> WrongInput:
    """The file of budgets, with an agent that uses the endpoint; alone, if editors find it."""
    files = {"budgets.yaml": text, **({} if editor else USES_M)}
    return WrongInput(name, files, [f"budgets.yaml:{line}" for line in says], editor=editor)


BUDGETS = [
    budgets(
        "a budget misspelt",
        "- {name: a, per: all, window: day, maxToken: 9}\n",
        "1: unknown field `maxToken`; did you mean `maxTokens`?",
        editor=True,
    ),
    budgets(
        "a budget of nobody",
        "- {name: a, per: everyone, window: day, maxTokens: 9}\n",
        "1: `[0].per`: `everyone` does not fit; write `principal`, `agent`, `team` or `all`",
        editor=True,
    ),
]
WHOLE_BUDGETS = [
    budgets(
        "budgets by name",
        "teams: {per: all, window: day, maxTokens: 9}\n",
        "1: budgets are a list; write each as `- {name: …, per: …, window: …}`",
    ),
    budgets(
        "a zone that is unknown",
        "- {name: a, per: all, window: day, zone: Europe/Berln, maxTokens: 9}\n",
        "1: `[0].zone`: there is no time zone `Europe/Berln` on this machine; did you mean"
        " `Europe/Berlin`?",
    ),
    budgets(
        "a budget that limits nothing",
        "- {name: a, per: all, window: day}\n",
        "1: `[0]`: the budget limits nothing; add `maxCost`, `maxTokens`, `maxRuns` or `maxCalls`",
    ),
    budgets(
        "approvers who decide nothing",
        "- {name: a, per: all, window: day, maxTokens: 9, approvers: [finance]}\n",
        "1: `[0]`: `approvers` decide nothing without `onLimit: ask`; add it, or leave them out",
    ),
    budgets(
        "two budgets of one name",
        "- {name: a, per: all, window: day, maxTokens: 9}\n"
        "- {name: a, per: team, window: day, maxTokens: 9}\n",
        "2: `[1].name`: another budget has the name `a`; give one of them another name",
    ),
    budgets(
        "a budget with the name of a run's own",
        "- {name: maxCost, per: all, window: day, maxTokens: 9}\n",
        "1: `[0]`: `maxCost` is the name of a run's own budget; write another",
    ),
    budgets(
        "calls of an unknown tool",
        "- name: a\n  per: all\n  window: day\n  maxCalls: {look_upp: 3}\n",
        "4: there is no tool `look_upp`; did you mean `look_up`?",
    ),
    budgets(
        "costs without a price",
        "- {name: a, per: all, window: day, maxCost: 9}\n",
        "1: `[0].maxCost`: the model `m` has no price: its endpoint has none, and genai-prices"
        f" {genai_prices.__version__} does not list it; add its `price`; or limit `maxTokens`",
    ),
    WrongInput(
        "costs in another currency",
        {
            "budgets.yaml": "- {name: a, per: all, window: day, maxCost: 9, currency: USD}\n",
            "endpoints.yaml": PRICED,
            **USES_M,
        },
        [
            "budgets.yaml:1: `[0].currency`: the budget is in USD, and the model `m` has a price"
            " in EUR; write one `currency` in both: none is converted"
        ],
    ),
    WrongInput(
        "costs in two currencies",
        {
            "budgets.yaml": "- {name: a, per: all, window: day, maxCost: 9}\n",
            "endpoints.yaml": f"{PRICED}n{PRICED[1:].replace('EUR', 'USD')}",
            "agents/a.yaml": "model: [{endpoint: m}, {endpoint: n}]\n",
        },
        [
            "budgets.yaml:1: `[0].maxCost`: the prices of the models have several currencies:"
            " EUR, USD; make it a budget of `maxTokens`: none converts"
        ],
    ),
]
CYCLES = [
    WrongInput(
        "constant calls that start themselves",
        {
            "tools/ask_b.yaml": "_delegate: b\n",
            "tools/ask_c.yaml": "_delegate: c\n",
            "agents/b.yaml": "calls:\n- {_tool: look_up, order_id: '7'}\n- {_tool: ask_c}\n",
            "agents/c.yaml": "calls: [{_tool: ask_b}]\n",
        },
        [
            "agents/b.yaml:3: `calls[1]`: this call starts its own agent again: b → c → b; delegate"
            " to another agent"
        ],
    ),
]
