"""Options and variables that name nothing, or nothing good; and schedules that do not load."""

import shlex

from tests.contract.wrong_inputs.loading import ARGUMENTS, MODEL, Place, WrongInput
from tests.support.identity.signing import Signer, ed25519_key

GOOD = shlex.join(ARGUMENTS)


def option(name: str, words: str, says: str) -> WrongInput:
    """Options of the command."""
    return WrongInput(name, {}, [says], arguments=shlex.split(words))


def variable(name: str, says: str, **environment: str) -> WrongInput:
    """A variable of the environment, beside good options."""
    return WrongInput(name, {}, [says], environment=environment)


SETTINGS = [
    option(
        "nothing to check",
        "",
        "holdfast: there is nothing to check; name it with `--catalog DIR`, `--tools MODULE` or "
        "`--endpoints FILE`",
    ),
    option(
        "an option misspelt",
        "--catlog .",
        "holdfast: there is no option `--catlog`; did you mean `--catalog`?",
    ),
    option(
        "an option with an empty value",
        '--catalog . --task-queue ""',
        "holdfast: `--task-queue`: the text is empty; write a name",
    ),
    option(
        "a catalog that is a file",
        "--catalog shop.py",
        "shop.py: this is a file; name a folder with `--catalog`",
    ),
    WrongInput(
        "a folder that is no catalog",
        {"other": Place.FOLDER},
        [
            "other: it has neither a folder `tools` nor a folder `agents`; make one of them, "
            "or name another folder with `--catalog`",
        ],
        arguments=["--catalog", "other"],
    ),
    option(
        "the folder of tools in place of the catalog",
        "--catalog tools",
        "tools: this folder is inside a catalog; name the folder around it: `.`",
    ),
    option(
        "endpoints that are a folder", "--endpoints agents", "agents: this is a folder; name a file"
    ),
    option(
        "a module that is not there",
        "--tools shop.tools",
        "shop.tools: there is no such module; check the name, and where it is run",
    ),
    option(
        "a module's file that is not there",
        "--tools shp.py",
        "shp.py: there is no such file; did you mean `shop.py`?",
    ),
    option(
        "a file that is no module",
        "--tools ./shop",
        "./shop: this is no Python module; write its dotted name, or the path of its `.py` file",
    ),
    option(
        "a converter without its name",
        f"{GOOD} --converter temporalio.contrib.pydantic",
        "temporalio.contrib.pydantic: `:NAME` is missing; known: `pydantic_data_converter`",
    ),
    option(
        "a plugin of a module that is not there",
        f"{GOOD} --plugin shop.plugins:Tracing",
        "shop.plugins: there is no such module; check the name, and where it is run",
    ),
    option(
        "a converter that its module has not",
        f"{GOOD} --converter temporalio.contrib.pydantic:pydantic_converter",
        "temporalio.contrib.pydantic: it has no `pydantic_converter`; did you mean "
        "`pydantic_data_converter`?",
    ),
    option(
        "a converter that is none",
        f"{GOOD} --converter json:JSONDecoder",
        "json:JSONDecoder: it is `JSONDecoder`, and no `DataConverter`; name an object of that "
        "class, or a function without parameters that returns one",
    ),
    option(
        "a plugin that cannot be made",
        f"{GOOD} --plugin json:loads",
        "json:loads: it cannot be called: TypeError: loads() missing 1 required positional "
        "argument: 's'; fix the module",
    ),
    option(
        "an activity that notifies no one",
        f"{GOOD} --notify chrge",
        "--notify: this worker has no activity `chrge`; did you mean `charge`?",
    ),
    option(
        "a place of knowledge that is no address",
        f"{GOOD} --knowledge-url docs.acme.org",
        "--knowledge-url: `docs.acme.org` is no web address; write https://…",
    ),
    variable(
        "the variable of the places of knowledge misspelt",
        "holdfast: the variable HOLDFAST_KNOWLEDGE_URL is not read; did you mean "
        "HOLDFAST_KNOWLEDGE_URLS?",
        HOLDFAST_KNOWLEDGE_URL="https://docs.acme.org",
    ),
    option(
        "a store that is of no kind",
        f"{GOOD} --store gs://runs",
        "holdfast: `--store`: `gs://runs` does not fit; name a folder, or s3://BUCKET/PREFIX",
    ),
    variable(
        "a store where no folder can be",
        "--store: the store /dev/null/x cannot be written to: Not a directory; let the worker "
        "write there, or choose another with `--store`",
        HOLDFAST_STORE="/dev/null/x",
    ),
    option(
        "a port that is none",
        f"{GOOD} --dev-port 70000",
        "holdfast: `--dev-port`: `70000` does not fit; a port is a number up to 65535; 0 is any "
        "free one",
    ),
    variable(
        "a variable that does not exist",
        "holdfast: the variable HOLDFAST_CHECK is not read; use `--check`",
        HOLDFAST_CHECK="shop.py",
    ),
    variable(
        "a variable with a wrong duration",
        "holdfast: HOLDFAST_GRACEFUL_TIMEOUT: `10 seconds` does not fit; a duration is a number "
        'and a unit: "500ms", "30s", "5m", "24h", "7d"',
        HOLDFAST_GRACEFUL_TIMEOUT="10 seconds",
    ),
    option(
        "a network that is an address",
        "--catalog . --knowledge-network 10.1.2.3/8",
        "--knowledge-network: `10.1.2.3/8` is no network; write an address and how many of its "
        "bits count, like 10.0.0.0/8",
    ),
    variable(
        "a proxy of an unknown kind",
        "the environment: a proxy that it names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be "
        "used; write it like http://proxy.acme.org:3128 (SOCKS is not supported)",
        HTTPS_PROXY="socks5://ann:4711@proxy.acme.org",
    ),
    option(
        "an inbox by the address of its page",
        f"{GOOD} --viewers https://inbox.example",
        "--viewers: `viewers` has no address of an inbox; write wss://HOST or wss://HOST:PORT",
    ),
    variable(
        "an inbox without the shared key",
        "--viewers: the variable HOLDFAST_VIEWERS_KEY, the key of the inbox, is not set; set it to "
        "a text of at least 16 characters: openssl rand -hex 32",
        HOLDFAST_VIEWERS="wss://inbox.example",
    ),
    variable(
        "a shared key that is too short",
        "--viewers: the secret in the variable HOLDFAST_VIEWERS_KEY does not fit: it has fewer "
        "than 16 characters; set it to a text of at least 16 characters: openssl rand -hex 32",
        HOLDFAST_VIEWERS_KEY="short",
    ),
    WrongInput(
        "a variable that names no catalog",
        {},
        [
            "nowhere: there is no such folder; check the path",
        ],
        arguments=[],
        environment={"HOLDFAST_CATALOG": "nowhere"},
    ),
    WrongInput(
        "an activity on a queue of the worker",
        {"tools/t.yaml": "_activity: {type: pay, taskQueue: payments}\n"},
        [
            "tools/t.yaml:1: `_activity.type`: this worker has no activity `pay`; known: "
            "`charge`, `look_up` (an activity of another worker needs its `taskQueue`)",
        ],
        arguments=[*ARGUMENTS, "--task-queue", "payments"],
    ),
]


def schedule(name: str, text: str, *says: str, file: str = "a", tokens: bool = False) -> WrongInput:
    """A schedule of the agent `desk`, which has a call with an effect."""
    tool = "{_tool: pay, _activity: charge, _sideEffects: true}"
    entry = "input: {type: object, properties: {day: {type: string}}}\n"
    return WrongInput(
        name,
        {
            "agents/desk.yaml": f"{MODEL}{entry}tools: [{tool}]\n",
            "agents/reader.yaml": f"{MODEL}tools: [look_up]\n",
            f"schedules/{file}.yaml": text,
            "keys.pem": Signer(ed25519_key(7)).pem(),
        },
        [f"schedules/{file}.yaml:{line}" for line in says],
        arguments=(*ARGUMENTS, *(["--principal-tokens", "--keys", "keys.pem"] if tokens else [])),
    )


ONE_RUN = (
    "`principal`: a token is for one run, by its id, and a schedule starts one run after another;"
    " write none, or have a program start them that signs a token for each"
)
DAILY = "agent: reader\ninput: go\ncron: 0 7 * * 1-5\n"
SCHEDULES = [
    schedule(
        "a schedule of an unknown agent",
        "agent: dsk\ninput: go\ninterval: 1h\n",
        "1: `agent`: there is no agent `dsk`; did you mean `desk`?",
    ),
    schedule(
        "a schedule without a time",
        "agent: reader\ninput: go\n",
        "1: `cron` or `interval` is missing; add one of them",
    ),
    schedule(
        "a schedule with two times",
        DAILY + "interval: 1h\n",
        "1: `cron` and `interval` exclude each other; keep one of them",
    ),
    schedule(
        "a cron expression of six fields",
        "agent: reader\ninput: go\ncron: 0 0 7 * * 1-5\n",
        "3: `cron`: a cron expression has five fields; write minute, hour, day, month and day of"
        " the week, as in `0 7 * * 1-5`",
    ),
    schedule(
        "a cron expression at an hour that does not exist",
        "agent: reader\ninput: go\ncron: 0 24 * * 1-5\n",
        "3: `cron`: `24` is no hour; write minute, hour, day, month and day of the week, as in"
        " `0 7 * * 1-5`",
    ),
    schedule(
        "an interval in a time zone",
        "agent: reader\ninput: go\ninterval: 1h\ntimeZone: Europe/Berlin\n",
        "1: an `interval` has no time zone; leave out `timeZone`, or write `cron`",
    ),
    schedule(
        "a time zone of a schedule that is unknown",
        DAILY + "timeZone: Europe/Berln\n",
        "4: `timeZone`: there is no time zone `Europe/Berln` on this machine; did you mean"
        " `Europe/Berlin`?",
    ),
    schedule(
        "an overlap policy in other words",
        DAILY + "overlap: skip\n",
        "4: `overlap`: `skip` does not fit; did you mean `Skip`?",
    ),
    schedule(
        "a schedule whose runs can wait, and no overlap policy",
        "agent: desk\ninput: go\ninterval: 1h\n",
        "1: `overlap` is missing, and a run of `desk` can wait for a person; state what becomes of"
        " the next start then, such as `overlap: Skip`",
    ),
    schedule(
        "an input of a schedule that does not fit its agent",
        "agent: desk\ninput: {day: 7}\ninterval: 1h\napprovals: deny\n",
        "2: it does not fit the `input` of agent `desk`: day: 7 is not of type"
        ' "string"; change it: each run would be refused',
    ),
    schedule(
        "a token in a schedule",
        DAILY + "principal: {token: ey.J.x}\n",
        f"4: {ONE_RUN}",
    ),
    schedule(
        "a schedule with a name that is none",
        DAILY,
        "1: the file's name is that of another schedule, or not valid as a name; rename it: it is"
        " the schedule's id",
        file="a b",
    ),
    schedule(
        "a field of a schedule misspelt",
        DAILY + "timezone: Europe/Berlin\n",
        "4: unknown field `timezone`; did you mean `timeZone`?",
    ),
    schedule(
        "a short catch-up window",
        DAILY + "catchupWindow: 5s\n",
        "1: `catchupWindow` is shorter than Temporal allows; write 10s or more",
    ),
    schedule(
        "a principal of a schedule where tokens are required",
        DAILY + "principal: {id: reports}\n",
        f"4: {ONE_RUN}",
        tokens=True,
    ),
    schedule(
        "a schedule without a principal where tokens are required",
        DAILY,
        f"1: {ONE_RUN}",
        tokens=True,
    ),
]
