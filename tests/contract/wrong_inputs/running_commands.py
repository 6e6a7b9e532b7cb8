"""`holdfast` with wrong words, files and names."""

from tests.contract.wrong_inputs.running import Command

WORDS = [
    Command("no command", [], 2, "holdfast: COMMAND is missing; see holdfast --help"),
    Command(
        "a command that does not exist",
        ["aprove"],
        2,
        "holdfast: `COMMAND`: `aprove` does not fit; did you mean `approvals`?",
    ),
    Command(
        "an option that does not exist",
        ["run", "helper", "--inptu", "go"],
        2,
        "holdfast: there is no option `--inptu`; did you mean `--input`?",
    ),
    Command(
        "an option without its value",
        ["run", "helper", "--input"],
        2,
        "holdfast: `--input`: its value is missing; see holdfast run --help",
    ),
    Command(
        "an input file that is not there",
        ["run", "helper", "--input", "@<folder>/no.txt"],
        2,
        "holdfast: `--input`: <folder>/no.txt cannot be read: No such file or "
        "directory; see holdfast run --help",
    ),
    Command(
        "an input file that is a folder",
        ["run", "helper", "--input", "@<folder>"],
        2,
        "holdfast: `--input`: <folder> cannot be read: Is a directory; see holdfast run --help",
    ),
    Command(
        "a state that is no JSON",
        ["run", "helper", "--input", "go", "--state", "{x"],
        2,
        "holdfast: `--state`: that is no JSON: Expecting property name enclosed in "
        "double quotes: line 1 column 2 (char 1); write a JSON object, such as "
        '{"order_id": "A-1"}, or @FILE',
    ),
    Command(
        "a context that is no list",
        ["run", "helper", "--context", '{"content": "x"}'],
        2,
        'holdfast: `--context`: `{"content": "x"}` does not fit; write a JSON list of messages, '
        'such as [{"content": "Hello."}], or @FILE',
    ),
    Command(
        "a skill without a name",
        ["run", "helper", "--input", "go", "--skill", " "],
        2,
        "holdfast: `--skill`: the text is empty; write a name",
    ),
    Command(
        "a budget that does not exist",
        ["run", "helper", "--input", "go", "--budget", '{"maxTurn": 1}'],
        2,
        "holdfast: that is no run: `budget.maxTurn`: unknown field `maxTurn`; did you "
        "mean `maxTurns`?",
    ),
    Command(
        "approvals: yes",
        ["run", "helper", "--input", "go", "--approvals", "yes"],
        2,
        "holdfast: `--approvals`: `yes` does not fit; write one of ask, deny",
    ),
    Command(
        "an agent's file that is not there",
        ["run", "@<folder>/agent.json"],
        2,
        "holdfast: `AGENT`: <folder>/agent.json cannot be read: No such file or "
        "directory; see holdfast run --help",
    ),
    Command(
        "an agent's file that is no agent",
        ["run", "@<folder>/agent.json", "--input", "go"],
        2,
        "holdfast: that is no run: `agent.modle`: unknown field `modle`; did you mean `model`?",
        files={"agent.json": '{"modle": {}}'},
    ),
    Command(
        "nothing to do",
        ["run", "helper"],
        2,
        "holdfast: there is nothing to do; say what with --input TEXT, @FILE or -",
    ),
    Command(
        "words too many",
        ["run", "helper", "do", "it"],
        2,
        "holdfast: `do` is one word too many; put a text of several words in quotes",
    ),
    Command(
        "an empty id",
        ["run", "helper", "--input", "go", "--id", ""],
        2,
        "holdfast: `--id`: the text is empty; write a name",
    ),
    Command(
        "an id that is too long",
        ["run", "helper", "--input", "go", "--id", "x" * 2000],
        2,
        "holdfast: Temporal refuses: WorkflowId exceeds maximum allowed length "
        "(2000/1000); see holdfast --help",
    ),
    Command(
        "a decision that does not exist",
        ["decide", "<run>", "t1c1", "aprove"],
        2,
        "holdfast: `DECISION`: `aprove` does not fit; did you mean `approve`?",
    ),
    Command(
        "a decision without a call",
        ["decide", "<run>", "approve"],
        2,
        "holdfast: DECISION is missing; see holdfast decide --help",
    ),
    Command(
        "edit without arguments",
        ["decide", "<run>", "t1c1", "edit"],
        2,
        "holdfast: that is no decision: `edit` needs `arguments`, the whole of them; "
        "see holdfast decide --help",
    ),
    Command(
        "edit with a list",
        ["decide", "<run>", "t1c1", "edit", "--arguments", "[5]"],
        2,
        "holdfast: `--arguments`: `[5]` does not fit; write a JSON object, such as "
        '{"order_id": "A-1"}, or @FILE',
    ),
    Command(
        "respond without a result",
        ["decide", "<run>", "t1c1", "respond"],
        2,
        "holdfast: that is no decision: `respond` needs `result`, the value to use as "
        "the call's result; see holdfast decide --help",
    ),
    Command(
        "a call struck out and the plan denied",
        ["decide", "<plan>", "t1-plan", "deny", "--strike", "t1c1"],
        2,
        "holdfast: --strike goes with approve alone; say approve, or edit without it",
    ),
    Command(
        "a call struck out that the plan does not have",
        ["decide", "<plan>", "t1-plan", "approve", "--strike", "t1c4"],
        2,
        "holdfast: `t1c4` is no call of this plan; it has `t1c1`, `t1c2`, `t1c3`",
    ),
    Command(
        "every call struck out",
        ["decide", "<plan>", "t1-plan", "approve"]
        + [word for n in (1, 2, 3) for word in ("--strike", f"t1c{n}")],
        2,
        "holdfast: no call would be left; say `deny`",
    ),
    Command(
        "a call struck out of what is no plan",
        ["decide", "<run>", "t1c1", "approve", "--strike", "t1c1"],
        2,
        "holdfast: t1c1 is no plan; approve or deny it",
    ),
    Command(
        "a call struck out of a plan that does not wait",
        ["decide", "<plan>", "t2-plan", "approve", "--strike", "t1c1"],
        4,
        "holdfast: no call `t2-plan` of run <plan> waits for a decision; holdfast approvals lists"
        " the pending approvals",
    ),
    Command(
        "a limit of none",
        ["list", "--limit", "0"],
        2,
        "holdfast: `--limit`: `0` does not fit; write a whole number from 1 on",
    ),
    Command(
        "a status that does not exist",
        ["list", "--status", "waiting"],
        2,
        "holdfast: `--status`: `waiting` does not fit; did you mean `awaiting_message` "
        "or `awaiting_approval`?",
    ),
    Command(
        "watch without a run", ["watch"], 2, "holdfast: RUN is missing; see holdfast watch --help"
    ),
]

RUNS = [
    Command(
        "a skill that the agent does not have",
        ["run", "helper", "--input", "go", "--skill", "refunds", "--task-queue", "<queue>"],
        1,
        "failed: invalid_request: `skill`: agent `helper` has no skills; leave it out",
        on_screen=True,
    ),
    Command(
        "an agent that does not exist",
        ["run", "helpr", "--input", "go", "--task-queue", "<queue>"],
        1,
        "failed: invalid_request: `agent`: there is no agent `helpr`; did you mean `helper`?",
        on_screen=True,
    ),
    Command(
        "an id that is taken",
        ["run", "helper", "--input", "go", "--id", "<run>", "--task-queue", "<queue>"],
        1,
        "holdfast: there is a run with the id <run>; see holdfast show <run>, or choose"
        " another --id",
    ),
    Command(
        "watch a run that does not exist",
        ["watch", "nobody"],
        4,
        "holdfast: there is no run nobody; holdfast list shows the runs",
    ),
    Command(
        "show a run that does not exist",
        ["show", "nobody"],
        4,
        "holdfast: there is no run nobody; holdfast list shows the runs",
    ),
    Command(
        "decide in a run that does not exist",
        ["decide", "nobody", "t1c1", "approve"],
        4,
        "holdfast: there is no run nobody; holdfast list shows the runs",
    ),
    Command(
        "send to a run that does not exist",
        ["send", "nobody", "hello"],
        4,
        "holdfast: there is no run nobody; holdfast list shows the runs",
    ),
    Command(
        "close a run that does not exist",
        ["close", "nobody"],
        4,
        "holdfast: there is no run nobody; holdfast list shows the runs",
    ),
    Command(
        "cancel a run that does not exist",
        ["cancel", "nobody"],
        4,
        "holdfast: there is no run nobody; holdfast list shows the runs",
    ),
    Command(
        "show another's workflow",
        ["show", "<other>"],
        4,
        "holdfast: <other> is a Other, not an agent's run or a call; holdfast list shows the runs",
    ),
    Command(
        "a call that does not wait",
        ["decide", "<run>", "t9c9", "approve"],
        4,
        "holdfast: run <run> refuses: no call t9c9 waits for a decision; waiting: t1c1,"
        " t1c2; holdfast approvals lists the pending approvals",
    ),
    Command(
        "a call that is decided",
        ["decide", "<run>", "t1c3", "approve"],
        1,
        "holdfast: run <run> refuses: call t1c3 is decided already: deny by ben; "
        "nothing was changed",
    ),
    Command(
        "edit with wrong arguments",
        ["decide", "<run>", "t1c1", "edit", "--arguments", '{"amount": "much"}'],
        2,
        "holdfast: run <run> refuses: the edited arguments do not fit: amount: 'much' "
        "is not of type 'number'; holdfast approvals shows the call",
    ),
    Command(
        "not among the approvers",
        ["decide", "<run>", "t1c2", "approve"],
        2,
        "holdfast: run <run> refuses: only these groups decide on this call: finance; "
        "holdfast approvals shows the call",
    ),
    Command(
        "a wrong digest",
        ["decide", "<run>", "t1c1", "approve", "--digest", "abc"],
        2,
        "holdfast: run <run> refuses: `digest` is not that of the call as it waits now:"
        " look at it again, then decide; holdfast approvals shows the call",
    ),
    Command(
        "send to what is no conversation",
        ["send", "<run>", "hello"],
        2,
        "holdfast: run <run> is no conversation; say it before the next turn with "
        "holdfast send <run> TEXT --steer",
    ),
    Command(
        "decide in a run that has ended",
        ["decide", "<ended>", "t1c1", "approve"],
        4,
        "holdfast: run <ended> has ended; see holdfast show <ended>",
    ),
    Command(
        "send to a run that has ended",
        ["send", "<ended>", "hello"],
        4,
        "holdfast: run <ended> has ended; see holdfast show <ended>",
    ),
    Command(
        "steer a run that has ended",
        ["send", "<ended>", "hello", "--steer"],
        4,
        "holdfast: run <ended> has ended; see holdfast show <ended>",
    ),
    Command(
        "close a run that has ended",
        ["close", "<ended>"],
        4,
        "holdfast: run <ended> has ended; see holdfast show <ended>",
    ),
    Command(
        "a run without a worker",
        ["show", "<deserted>"],
        3,
        "holdfast: no worker answers queries on task queue <empty>; start one: "
        "holdfast worker --task-queue <empty>",
    ),
    Command(
        "decide in a run without a worker",
        ["decide", "<deserted>", "t1c1", "approve"],
        3,
        "holdfast: no worker answers queries on task queue <empty>; start one: "
        "holdfast worker --task-queue <empty>",
    ),
]

COMMANDS = [*WORDS, *RUNS]
