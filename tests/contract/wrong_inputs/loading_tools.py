"""Tools that do not load."""

from tests.contract.wrong_inputs.loading import CHARGED, tool

PAYS = CHARGED + "properties: {amount: {type: number}, note: {}}\nrequired: [amount]\n"
SMALL = "{when: {properties: {amount: {maximum: 5}}}}"
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
        "a duration of nothing",
        "_activity: {type: charge, heartbeatTimeout: 0s}\n",
        "1: `_activity.heartbeatTimeout`: `0s` does not fit; a duration is more than "
        "nothing and at most 3650d",
    ),
    tool(
        "an activity that no one registers",
        "_activity: chrge\n",
        "1: `_activity`: this worker has no activity `chrge`; did you mean `charge`? (an "
        "activity of another worker needs its `taskQueue`)",
        editor=False,
    ),
    tool(
        "an activity of the tool's name that no one registers",
        "description: Charge a card.\n",
        "1: this worker has no activity `t` to run the tool; name one "
        "with `_activity` (known: `charge`, `look_up`), an agent with `_delegate`, or have the "
        "model itself answer by `_output`",
        editor=False,
    ),
    tool(
        "side effects of what the model itself answers",
        "_output: {type: string}\n_sideEffects: true\n",
        "2: `_sideEffects`: the model itself answers `t`, which has no side effects; "
        "name the activity with `_activity` (known: `charge`, `look_up`), or leave "
        "`_sideEffects` out",
        editor=False,
    ),
    tool(
        "a delegate besides an activity",
        CHARGED + "_delegate: anonymous\n",
        "2: `_delegate` and `_activity` each name what runs the tool; keep one of them",
    ),
    tool(
        "a person besides an activity",
        "_person: true\n" + CHARGED,
        "1: `_person` and `_activity` each name what runs the tool; keep one of them",
    ),
    tool(
        "side effects of what a person answers",
        "_person: true\n_sideEffects: true\n",
        "2: `_sideEffects` does not apply: one person answers each call, and "
        "nothing runs; leave it out",
        editor=False,
    ),
    tool(
        "a person who answers each item of a list",
        "_person: true\n_each: true\n",
        "2: `_each` is for a tool that an activity runs, or an agent; leave it out",
        editor=False,
    ),
    tool(
        "a list in place of whether a tool runs for one",
        CHARGED + "_each: †state.lines\n",
        "2: `_each`: `†state.lines` does not fit; write `true` or `false`",
    ),
    tool(
        "several people who answer one call",
        "_person: true\n_approval: {quorum: 2}\n",
        "2: `quorum` does not apply: one person answers each call, and nothing runs; leave it out",
        editor=False,
    ),
    tool(
        "an approval in place of an answer",
        "_person: true\n_approval: {onTimeout: approve}\n",
        "2: `_approval.onTimeout`: `onTimeout: approve` has no answer to use; write `deny` or "
        "`fail`",
        editor=False,
    ),
    tool(
        "a list of no rule",
        PAYS + "_approval: []\n",
        "4: `_approval`: `[]` does not fit; write at least 1",
    ),
    tool(
        "more rules than a tool may have",
        PAYS + f"_approval: [{', '.join(['{quorum: 2}'] * 21)}]\n",
        '4: `_approval`: `[{"quorum": 2}, {"quorum": 2}, {"quorum": 2}, {"quorum": 2}, '
        '{"quorum": 2}, {"qu…` does not fit; write at most 20 items',
    ),
    tool(
        "a field of a rule misspelt",
        PAYS + "_approval:\n- {quorums: 2}\n- {quorum: 2}\n",
        "5: unknown field `quorums`; did you mean `quorum`?",
    ),
    tool(
        "a rule that no call reaches",
        PAYS + "_approval:\n- quorum: 2\n- {when: {properties: {amount: {maximum: 5}}}}\n",
        "6: `_approval[1]`: no call reaches this rule: rule 1 has no `when`, and fits every call;"
        " move that one to the end, or give it a `when`",
        editor=False,
    ),
    tool(
        "two rules for the same calls",
        PAYS + f"_approval:\n- {SMALL}\n- {SMALL}\n",
        "6: no call reaches this rule: rule 1 has the same `when`; remove one of them",
        editor=False,
    ),
    tool(
        "a rule on a parameter misspelt",
        PAYS + "_approval:\n- {when: {properties: {amont: {maximum: 5}}}, quorum: 2}\n- {}\n",
        "5: `_approval[0].when`: `amont` is no parameter of the tool; did you mean `amount`?",
        editor=False,
    ),
    tool(
        "a rule that lets calls run unasked that leave its argument out",
        PAYS + "_approval:\n- {when: {properties: {note: {const: ok}}}, require: never}\n",
        "5: a call without `note` fits, too, and would run unasked; add `required: [note]` to this"
        " `when`, or to the tool",
        editor=False,
    ),
    tool(
        "a bound of numbers on what may be a text",
        PAYS + "_approval:\n- when: {properties: {note: {maximum: 5}}, required: [note]}\n",
        "5: what is no number fits every `maximum`, and `note` may be none; write `type: number` of"
        " the parameter, or beside `maximum`",
        editor=False,
    ),
    tool(
        "a forward of what anyone may decide",
        CHARGED + "_approval: {forward: [{after: 4h, to: [board]}]}\n",
        "2: `_approval.forward`: anyone may decide without `approvers`, so that there is no one to"
        " forward it to; add `approvers`, or leave it out",
        editor=False,
    ),
    tool(
        "a forward after the timeout",
        CHARGED + "_approval:\n  timeout: 4h\n  approvers: [ops]\n"
        "  forward: [{after: 1h, to: [board]}, {after: 4h, to: [legal]}]\n",
        "5: `_approval.forward[1].after`: it is not between 1h and 4h; list the earliest"
        " first, each before the `timeout`",
        editor=False,
    ),
    tool(
        "a turn before the first",
        CHARGED + "_limits: {forceAtStep: 0}\n",
        "2: `_limits.forceAtStep`: `0` does not fit; write 1 or more",
    ),
    tool(
        "arguments of no bytes",
        CHARGED + "_limits: {maxArgumentsBytes: 0}\n",
        "2: `_limits.maxArgumentsBytes`: `0` does not fit; write 1 or more",
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
        "`local`, or write `_idempotent: true` if the activity is idempotent",
        editor=False,
    ),
    tool(
        "an output path without its mark",
        CHARGED + "_outputPath: state.refund\n",
        "2: `_outputPath`: `state.refund` names no place to write to; write it like "
        "`†state.order.id`",
    ),
    tool(
        "a place that is counted from the end",
        CHARGED + "_outputPath: †state.refunds[-1]\n",
        "2: `_outputPath`: `†state.refunds[-1]`: an index from the end is not written to; name the"
        " whole list, with `_outputMethod`",
        editor=False,
    ),
    tool(
        "an output path into the input",
        CHARGED + "_outputPath: †input.refund\n",
        "2: `_outputPath`: `†input.refund`: a run's input is never written to; write to `†state.…`",
    ),
    tool(
        "a name that is a number",
        CHARGED + "_tool: 5\n",
        '2: `_tool`: `5` does not fit; write a text, in quotes: "5"',
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
        "an enum that is a text",
        CHARGED + "properties:\n  colour: {enum: red}\n",
        "3: `properties.colour.enum`: `red` does not fit; write a list",
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
        CHARGED + "$schema: http://json-schema.org/draft-03/schema#\n",
        "2: `$schema`: `http://json-schema.org/draft-03/schema#` is not read; leave it "
        "out, or write https://json-schema.org/draft/2020-12/schema; drafts 06, 07 and 2019-09 "
        "are read, too",
    ),
    tool(
        "a tool as OpenAI has it",
        CHARGED + "name: charge\nparameters: {type: object}\n",
        "2: unknown keyword `name`; a tool's name is its `_tool`",
        "3: unknown keyword `parameters`; the parameters are the tool's `properties`; "
        "a schema of them is `_parameters`",
    ),
    tool(
        "a tool as Anthropic has it",
        CHARGED + "input_schema: {type: object}\n",
        "2: unknown keyword `input_schema`; the parameters are the tool's `properties`; "
        "a schema of them is `_parameters`",
    ),
    tool(
        "a parameter with an underscore",
        CHARGED + "properties:\n  _secret: {type: string}\n",
        "3: unknown meta-property `_secret`; write the schema of the arguments under "
        "`_parameters`, with this name",
    ),
    tool(
        "a name of Holdfast's own under `_parameters`",
        CHARGED + "_parameters:\n  properties:\n    _tool: {type: string}\n",
        "4: a parameter cannot have the name `_tool`, which Holdfast reads itself; give it another",
        editor=False,
    ),
    tool(
        "parameters in two places",
        CHARGED + "properties: {}\n_parameters: {}\n",
        "2: `properties` and `_parameters` are both about the arguments; write all of it under "
        "`_parameters`",
        editor=False,
    ),
    tool(
        "a tool that is no object",
        CHARGED + "type: array\n",
        "2: `type`: `array` does not fit; write `object`",
    ),
    tool("a list of names", "- look_up\n", "1: `[0]`: this is no tool; write a JSON Schema object"),
]
