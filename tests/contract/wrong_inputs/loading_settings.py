"""Options and variables that name nothing, or nothing good."""

import shlex

from tests.contract.wrong_inputs.loading import ARGUMENTS, Place, WrongInput

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
