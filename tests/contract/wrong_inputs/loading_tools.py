"""Tools that do not load."""

from tests.contract.wrong_inputs.loading import CHARGED, tool

TOOLS = [
    tool(
        "a meta-property misspelt",
        CHARGED + "_sideEffect: true\n",
        "2: unknown meta-property `_sideEffect`; did you mean `_sideEffects`?",
    ),
    tool(
        "a meta-property without its underscore",
        CHARGED + "sideEffects: true\n",
        "2: unknown keyword `sideEffects`; did you mean `_sideEffects`? One of your own "
        "begins with `x-`",
    ),
    tool(
        "a meta-property misspelt among the properties",
        CHARGED + "properties:\n  _aproval: {const: {require: always}}\n",
        "3: unknown meta-property `_aproval`; did you mean `_approval`?",
    ),
    tool(
        "a meta-property that the model may not choose",
        CHARGED + "properties:\n  _sideEffects: {type: boolean}\n",
        '3: `_sideEffects` is not for the model to choose; fix it: {"const": …}, or '
        '"_sideEffects": … at the top of the tool',
    ),
    tool(
        "a meta-property in both places",
        CHARGED + "_show: full\nproperties:\n  _show: {const: none}\n",
        "4: `_show` is set here and at the top of the tool; keep one of them",
        editor=False,
    ),
    tool(
        "a flag that is a text",
        CHARGED + "_sideEffects: yes\n",
        "2: `_sideEffects`: `yes` does not fit; write `true` or `false`",
    ),
    tool(
        "a flag in quotes",
        CHARGED + '_idempotent: "true"\n',
        "2: `_idempotent`: `true` does not fit; write `true` or `false`, without quotes",
    ),
    tool(
        "an approval that is no object",
        CHARGED + "_approval: always\n",
        "2: `_approval`: `always` does not fit; write an object",
    ),
    tool(
        "a field of an approval misspelt",
        CHARGED + "_approval: {requre: always}\n",
        "2: unknown field `requre`; did you mean `require`?",
    ),
    tool(
        "a value of an approval misspelt",
        CHARGED + "_approval: {require: alway}\n",
        "2: `_approval.require`: `alway` does not fit; did you mean `always`?",
    ),
    tool(
        "a duration with a space",
        CHARGED + "_approval: {timeout: 30 s}\n",
        "2: `_approval.timeout`: `30 s` does not fit; a duration is a number and a unit: "
        '"500ms", "30s", "5m", "24h", "7d"',
    ),
    tool(
        "a duration without a unit",
        "_activity: {type: charge, startToCloseTimeout: 30}\n",
        "1: `_activity.startToCloseTimeout`: `30` does not fit; a duration is a number "
        'and a unit: "500ms", "30s", "5m", "24h", "7d"',
    ),
    tool(
        "a duration of nothing",
        "_activity: {type: charge, heartbeatTimeout: 0s}\n",
        "1: `_activity.heartbeatTimeout`: `0s` does not fit; a duration is more than "
        "nothing and at most 3650d",
    ),
    tool(
        "fewer attempts than one",
        "_activity: {type: charge, retry: {maximumAttempts: -1}}\n",
        "1: `_activity.retry.maximumAttempts`: `-1` does not fit; write 1 or more",
    ),
    tool(
        "attempts in words",
        "_activity: {type: charge, retry: {maximumAttempts: three}}\n",
        "1: `_activity.retry.maximumAttempts`: `three` does not fit; write a whole number",
    ),
    tool(
        "an activity that nobody registers",
        "_activity: chrge\n",
        "1: `_activity`: this worker has no activity `chrge`; did you mean `charge`? (an "
        "activity of another worker needs its `taskQueue`)",
        editor=False,
    ),
    tool(
        "an activity of the tool's name that nobody registers",
        "description: Charge a card.\n",
        "1: this worker has no activity `t` to run the tool; name one "
        "with `_activity` (known: `charge`, `look_up`), an agent with `_delegate`, or have the "
        "model itself answer by `_output`",
        editor=False,
    ),
    tool(
        "side effects of what the model itself answers",
        "_output: {type: string}\n_sideEffects: true\n",
        "2: `_sideEffects`: the model itself answers `t`, which has no effect on the world; "
        "name what has one with `_activity` (known: `charge`, `look_up`), or leave "
        "`_sideEffects` out",
        editor=False,
    ),
    tool(
        "the delegate without a name misspelt",
        "_delegate: anonymus\n",
        "1: `_delegate`: there is no agent `anonymus`; did you mean `anonymous`?",
        editor=False,
    ),
    tool(
        "a delegate that is an object",
        "_delegate: {agent: translator}\n",
        '1: `_delegate`: `{"agent": "translator"}` does not fit; write a text',
    ),
    tool(
        "an empty delegate",
        "_delegate: ''\n",
        "1: `_delegate`: the text is empty; write one that is not",
    ),
    tool(
        "a delegate besides an activity",
        CHARGED + "_delegate: anonymous\n",
        "2: `_delegate` and `_activity` each name what runs the tool; keep one of them",
    ),
    tool(
        "a delegate besides an activity that does not read",
        "_activity: {local: true}\n_delegate: anonymous\n",
        "1: `_activity`: `type` is missing; add it",
        "2: `_delegate` and `_activity` each name what runs the tool; keep one of them",
    ),
    tool(
        "a delegate for the model to choose",
        "properties:\n  _delegate: {enum: [anonymous]}\n_output: true\n",
        '2: `_delegate` is not for the model to choose; fix it: {"const": …}, or '
        '"_delegate": … at the top of the tool',
    ),
    tool(
        "a hook that nobody registers",
        CHARGED + "_before: chrge\n",
        "2: `_before`: this worker has no activity `chrge`; did you mean `charge`? (an "
        "activity of another worker needs its `taskQueue`)",
        editor=False,
    ),
    tool(
        "a hook that names no activity",
        CHARGED + "_repair: {taskQueue: payments}\n",
        "2: `_repair`: `type` is missing; add it",
    ),
    tool(
        "a hook of the worker's own",
        CHARGED + "_prepare: generate\n",
        "2: `_prepare`: the activity name `generate` is the worker's own; name another",
    ),
    tool(
        "a hook that says what it is given",
        CHARGED + "_before: {type: charge, input: call}\n",
        "2: `_before.input`: this option is not for hooks; leave it out",
    ),
    tool(
        "an instance with a space",
        CHARGED + "_instance: the first\n",
        "2: `_instance`: `the first` does not fit; write at most 100 letters, digits, `_`, "
        "`.` and `-`, the first a letter or a digit",
    ),
    tool(
        "a name of the engine's own",
        CHARGED + "_tool: choose_skill\n",
        "1: the tool name `choose_skill` is the engine's own; give it another",
    ),
    tool(
        "the name of an activity in the wrong field",
        "_activity: {name: charge}\n",
        "1: `_activity`: `type` is missing; add it",
        "1: unknown field `name`; known: `heartbeatTimeout`, `input`, `local`, `retry`, "
        "`scheduleToCloseTimeout`, `startToCloseTimeout`, `taskQueue`, `type`",
    ),
    tool(
        "an activity that is a list",
        "_activity: [charge]\n",
        '1: `_activity`: `["charge"]` does not fit; write a text, or an object',
    ),
    tool(
        "an activity of the worker's own",
        "_activity: generate\n",
        "1: `_activity`: the activity name `generate` is the worker's own; name another",
    ),
    tool(
        "a local activity on another queue",
        "_activity: {type: charge, local: true, taskQueue: payments}\n",
        "1: `_activity.local`: a local activity runs on the run's own worker; leave out "
        "`taskQueue`, or `local`",
    ),
    tool(
        "a local activity that must not be repeated",
        "_activity: {type: charge, local: true}\n_sideEffects: true\n",
        "1: `_activity.local`: a local activity may run twice; leave out "
        "`local`, or say `_idempotent: true` if it is so",
        editor=False,
    ),
    tool(
        "scopes that are a text",
        CHARGED + "_requires: orders\n",
        "2: `_requires`: `orders` does not fit; write a list, like [orders]",
    ),
    tool(
        "an unknown method of writing",
        CHARGED + "_outputMethod: append\n",
        "2: `_outputMethod`: `append` does not fit; write `set`, `merge`, `assign`, "
        "`push` or `concat`",
    ),
    tool(
        "an output path without its mark",
        CHARGED + "_outputPath: state.refund\n",
        "2: `_outputPath`: `state.refund` names no place to write to; write it like "
        "`†state.order.id`",
    ),
    tool(
        "an output path into the input",
        CHARGED + "_outputPath: †input.refund\n",
        "2: `_outputPath`: `†input.refund`: a run's input is never written to; write to `†state.…`",
    ),
    tool(
        "a name with a space",
        CHARGED + "_tool: charge card\n",
        "2: `_tool`: `charge card` does not fit; write at most 128 letters, digits, `_`, "
        "`.` and `-`, of which the first is a letter",
    ),
    tool(
        "a name that is a number",
        CHARGED + "_tool: 5\n",
        '2: `_tool`: `5` does not fit; write a text, in quotes: "5"',
    ),
    tool(
        "a keyword misspelt",
        CHARGED + "propertis:\n  amount: {type: number}\n",
        "2: unknown keyword `propertis`; did you mean `properties`? One of your own "
        "begins with `x-`",
        editor=False,
    ),
    tool(
        "a keyword of a property misspelt",
        CHARGED + "properties:\n  amount: {type: number, desciption: How much}\n",
        "3: unknown keyword `desciption`; did you mean `description`? One of your own "
        "begins with `x-`",
        editor=False,
    ),
    tool(
        "a type misspelt",
        CHARGED + "properties:\n  order: {type: sting}\n",
        "3: `properties.order.type`: `sting` is no type; did you mean `string`?",
    ),
    tool(
        "a type of Python",
        CHARGED + "properties:\n  count: {type: int}\n",
        "3: `properties.count.type`: `int` is no type; write `integer`",
    ),
    tool(
        "a property required in its own schema",
        CHARGED + "properties:\n  amount: {type: number, required: true}\n",
        "3: `properties.amount.required`: `true` does not fit; write the list of the "
        "required properties' names beside `properties`",
    ),
    tool(
        "a required property misspelt",
        CHARGED + "properties:\n  order: {type: string}\nrequired: [ordr]\n",
        "4: `required[0]`: `ordr` is required, and there is no such property; did you "
        "mean `order`?",
        editor=False,
    ),
    tool(
        "a bound in quotes",
        CHARGED + "properties:\n  amount: {type: number, minimum: '5'}\n",
        "3: `properties.amount.minimum`: `5` does not fit; write a number",
    ),
    tool(
        "an enum that is a text",
        CHARGED + "properties:\n  colour: {enum: red}\n",
        "3: `properties.colour.enum`: `red` does not fit; write a list",
    ),
    tool(
        "a property that is a text",
        CHARGED + "properties:\n  order: string\n",
        "3: `properties.order`: `string` does not fit; write an object, or `true` or `false`",
    ),
    tool(
        "a regular expression that is none",
        CHARGED + "properties:\n  order: {type: string, pattern: '('}\n",
        "3: `properties.order.pattern`: `(` is no regular expression to check with: a group is "
        "not closed; write `)`, or `\\(` for the character",
        editor=False,
    ),
    tool(
        "a regular expression that looks ahead in the middle",
        CHARGED + "properties:\n  order: {type: string, pattern: 'A(?=-)'}\n",
        "3: `properties.order.pattern`: `A(?=-)` is no regular expression to check with: a pattern "
        "looks ahead or behind in the middle of a text; it may do so right after `^` or right "
        'before `$`; else write `{"not": {"pattern": …}}`, or a second `pattern` in `allOf`',
        editor=False,
    ),
    tool(
        "a reference to another file",
        CHARGED + "properties:\n  amount: {$ref: money.json}\n",
        "3: `properties.amount.$ref`: `money.json` is outside of this schema; nothing is "
        "fetched: copy what it names under `$defs`, and refer to `#/$defs/…`",
    ),
    tool(
        "a reference to what is not there",
        CHARGED + "properties:\n  amount: {$ref: '#/$defs/mony'}\n$defs: {money: {type: number}}\n",
        "3: `properties.amount.$ref`: `#/$defs/mony` is nowhere in this schema; did you "
        "mean `#/$defs/money`?",
        editor=False,
    ),
    tool(
        "a schema that never ends",
        CHARGED + "allOf: [{$ref: '#'}]\n",
        "1: checking with this schema would never end, or too late; let it go through "
        "`properties` or `items`, so that it gets to the end of a value",
        editor=False,
    ),
    tool(
        "another draft",
        CHARGED + "$schema: http://json-schema.org/draft-07/schema#\n",
        "2: `$schema`: `http://json-schema.org/draft-07/schema#` is not read; leave it "
        "out, or write https://json-schema.org/draft/2020-12/schema",
    ),
    tool(
        "a tool as OpenAI has it",
        CHARGED + "name: charge\nparameters: {type: object}\n",
        "2: unknown keyword `name`; a tool's name is its `_tool`",
        "3: unknown keyword `parameters`; a tool is the JSON Schema of its parameters "
        "itself: they are its `properties`",
    ),
    tool(
        "a tool as Anthropic has it",
        CHARGED + "input_schema: {type: object}\n",
        "2: unknown keyword `input_schema`; a tool is the JSON Schema of its parameters "
        "itself: they are its `properties`",
    ),
    tool(
        "a tool that is no object",
        CHARGED + "type: array\n",
        "2: `type`: `array` does not fit; write `object`",
    ),
    tool("a list of names", "- look_up\n", "1: `[0]`: this is no tool; write a JSON Schema object"),
]
