"""Agents that do not load."""

from tests.contract.wrong_inputs.loading import MODEL, agent

AGENTS = [
    agent(
        "an endpoint that does not exist",
        "model: {endpoint: n}\n",
        "1: `model.endpoint`: there is no endpoint `n`; known: `m`",
        editor=False,
    ),
    agent(
        "a model that is a number",
        "model: 5\n",
        "1: `model`: `5` does not fit; write an object, or a list",
    ),
    agent(
        "a model without its endpoint",
        "model: gpt-5\n",
        "1: `model.endpoint`: there is no endpoint `gpt-5`; known: `m`",
        editor=False,
    ),
    agent(
        "a reasoning that no model has",
        "model: {endpoint: m, reasoning: max}\n",
        "1: `model.reasoning`: `max` does not fit; write `none`, `low`, `medium` or `high`",
    ),
    agent(
        "a type of file that models do not accept",
        "model: {endpoint: m, accepts: [pdf]}\n",
        "1: `model.accepts[0]`: `pdf` does not fit; write `image` or `document`",
    ),
    agent(
        "a change of skills without any",
        MODEL + "changeSkill: true\n",
        "2: `changeSkill`: there are no skills; add `skills`, or leave it out",
        editor=False,
    ),
    agent("no model", "name: desk\n", "1: `model` is missing; add it, or `calls` in its place"),
    agent(
        "a URL in an agent",
        "model: {endpoint: m, baseUrl: http://localhost:8080}\n",
        "1: unknown field `baseUrl`; known: `accepts`, `endpoint`, "
        "`maxOutputTokens`, `name`, `options`, `reasoning`, `retryFor`, `temperature`",
    ),
    agent(
        "a field misspelt",
        MODEL + "instruction: Be kind.\n",
        "2: unknown field `instruction`; did you mean `instructions`?",
    ),
    agent(
        "a hook without its underscore",
        MODEL + "beforeModel: look_up\n",
        "2: unknown field `beforeModel`; did you mean `_beforeModel`?",
    ),
    agent(
        "a tool that does not exist",
        MODEL + "tools: [lookup]\n",
        "2: `tools[0]`: there is no tool `lookup`; did you mean `look_up`?",
        editor=False,
    ),
    agent(
        "tools that are a text",
        MODEL + "tools: look_up\n",
        "2: `tools`: `look_up` does not fit; write a list, like [look_up]",
    ),
    agent(
        "a tool that is a number",
        MODEL + "tools: [5]\n",
        "2: `tools[0]`: this is no tool; write the name of a tool, or a JSON Schema object",
    ),
    agent(
        "two mistakes in a tool of its own",
        MODEL
        + (
            "tools:\n- _tool: pay\n  _activity: {type: charge, startToCloseTimeout: 30 s}\n  "
            "_aproval: {}\n"
        ),
        "4: `tools[0]._activity.startToCloseTimeout`: `30 s` does not fit; a duration is "
        'a number and a unit: "500ms", "30s", "5m", "24h", "7d"',
        "5: unknown meta-property `_aproval`; did you mean `_approval`?",
    ),
    agent(
        "a tool of its own without a name",
        MODEL + "tools:\n- _activity: charge\n",
        '3: `tools[0]`: the tool has no name; give it one: "_tool": "…"',
        editor=False,
    ),
    agent(
        "a choice of a tool that it lacks",
        MODEL + "tools: [look_up]\ntoolChoice: {name: lookup}\n",
        "3: `toolChoice.name`: the agent has no tool `lookup`; did you mean `look_up`?",
        editor=False,
    ),
    agent(
        "a choice that does not exist",
        MODEL + "toolChoice: any\n",
        "2: `toolChoice`: `any` does not fit; write `auto`, `none` or `required`, or an object",
    ),
    agent(
        "a choice in the wrong field",
        MODEL + "toolChoice: {tool: look_up}\n",
        "2: `toolChoice`: `name` is missing; add it",
        "2: unknown field `tool`; known: `name`",
    ),
    agent(
        "a budget in quotes",
        MODEL + 'budget: {maxCalls: "5"}\n',
        "2: `budget.maxCalls`: `5` does not fit; write a whole number, without quotes",
    ),
    agent(
        "a budget of a message without its name",
        MODEL + "budget: {perMessage: 8}\n",
        "2: `budget.perMessage`: `8` does not fit; write an object",
    ),
    agent(
        "a total misspelt",
        MODEL + "budget: {total: {maxTurn: 90}}\n",
        "2: unknown field `maxTurn`; did you mean `maxTurns`?",
    ),
    agent(
        "a limit's end that does not exist",
        MODEL + "onLimit: {maxTurns: stop}\n",
        "2: `onLimit.maxTurns`: `stop` does not fit; write `finalize`, `fail` or `ask`",
    ),
    agent(
        "a threshold that is no share",
        MODEL + "onThreshold: {maxTokens: 80}\n",
        "2: `onThreshold.maxTokens`: `80` does not fit; write less than 1",
    ),
    agent(
        "a threshold of what is measured otherwise",
        MODEL + "onThreshold: {maxDuration: 0.5}\n",
        "2: `maxDuration` does not fit; did you mean `maxIterations`?",
    ),
    agent(
        "no person for what only a person can answer",
        MODEL + "tools: [{_tool: escalate, _person: true}]\napproval: {auto: [escalate]}\n",
        "3: `approval.auto` names `escalate`, which only a person can answer; leave it out",
        editor=False,
    ),
    agent(
        "approval without a tool",
        MODEL + "tools: [look_up]\napproval: {auto: [lookup]}\n",
        "3: `approval.auto` names `lookup`, which is not among the agent's tools; did "
        "you mean `look_up`?",
        editor=False,
    ),
    agent(
        "a name with a space in it",
        MODEL + "name: service desk\n",
        "2: `name`: `service desk` does not fit; write at most 128 letters, digits, `_`, "
        "`.` and `-`, of which the first is a letter",
    ),
    agent(
        "an agent that is a list",
        "- model: {endpoint: m}\n",
        "1: this is no agent; write an object with `model` in it",
    ),
    agent(
        "a field without a value", MODEL + "tools:\n", "2: `tools`: there is no value; write a list"
    ),
    agent(
        "a skill twice",
        MODEL + "skills:\n- name: refunds\n- name: refunds\n",
        "4: `skills[1].name`: it has the skill `refunds` twice; give one of them another name",
        editor=False,
    ),
    agent(
        "a mistake in a tool of a skill's own",
        MODEL + "skills:\n- name: a\n  tools:\n  - {_tool: pay, _activity: charge, _aproval: {}}\n",
        "5: unknown meta-property `_aproval`; did you mean `_approval`?",
    ),
    agent(
        "a tool of a skill that waits for another skill's",
        MODEL
        + (
            "skills:\n- name: a\n  tools: [look_up]\n- name: b\n  tools:\n"
            "  - {_tool: pay, _activity: charge, _limits: {after: [look_up]}}\n"
        ),
        "7: `skills[1].tools[0]`: `pay` runs only after `look_up`, which the skill "
        "lacks; known: `pay`",
        editor=False,
    ),
    agent(
        "a rule of a skill that fits no type",
        MODEL + "skills:\n- {name: b, when: {type: strin}}\n",
        "3: `skills[0].when.type`: `strin` is no type; did you mean `string`?",
    ),
    agent(
        "a change of skill in quotes",
        MODEL + "changeSkill: 'on'\n",
        "2: `changeSkill`: `on` does not fit; write `true` or `false`",
    ),
    agent(
        "a list of hooks around a request",
        MODEL + "_beforeModel: [charge]\n",
        '2: `_beforeModel`: `["charge"]` does not fit; write a text, or an object',
    ),
    agent(
        "instructions for an activity",
        MODEL + "skills:\n- {name: refunds, activity: charge, instructions: Be quick.}\n",
        "3: `skills[0].instructions`: this skill runs an activity, without a "
        "model; leave it out, or leave out `activity`",
    ),
    agent(
        "knowledge from two places",
        MODEL + "knowledge:\n- {name: faq, text: Five days., file: faq.md}\n",
        "3: `knowledge[0]`: `file` and `text` exclude each other; keep one of them",
    ),
    agent(
        "knowledge from an activity that does not exist",
        MODEL + "knowledge:\n- {name: hours, activity: opening_hour}\n",
        "3: `knowledge[0].activity`: this worker has no activity `opening_hour`; known: "
        "`charge`, `look_up` (an activity of another worker needs its `taskQueue`)",
        editor=False,
    ),
    agent(
        "memory twice",
        MODEL + "memory: true\nskills:\n- {name: guests, memory: true}\n",
        "4: `skills[0].memory`: the agent has its memory already; leave it out in one of the"
        " places",
        editor=False,
    ),
    agent(
        "memory for an activity",
        MODEL + "skills:\n- {name: refunds, activity: charge, memory: true}\n",
        "3: `skills[0].memory`: this skill runs an activity, without a "
        "model; leave it out, or leave out `activity`",
    ),
    agent(
        "a forward to no one",
        MODEL + "approval:\n  approvers: [ops]\n  forward: [{after: 4h, to: []}]\n",
        "4: `approval.forward[0].to`: `[]` does not fit; write at least 1",
    ),
    agent(
        "forwards in another order",
        MODEL + "approval:\n  approvers: [ops]\n"
        "  forward: [{after: 2h, to: [a]}, {after: 1h, to: [b]}]\n",
        "4: `approval.forward[1].after`: it is not between 2h and 7d; list the earliest"
        " first, each before the `timeout`",
        editor=False,
    ),
    agent(
        "a delegate of an agent's own tool that does not exist",
        MODEL + "tools:\n- _tool: ask\n  _delegate: b\n",
        "4: `tools[0]._delegate`: there is no agent `b`; known: `a`, `anonymous`",
        editor=False,
    ),
]
