"""Options and variables that name nothing, or nothing good."""

from tests.contract.wrong_inputs.loading import ARGUMENTS, Place, Wrong

SETTINGS = [
    Wrong(
        "nothing to check",
        {},
        [
            "holdfast: there is nothing to check; name it with `--catalog DIR`, `--tools "
            "MODULE` or `--endpoints FILE`",
        ],
        arguments=[],
    ),
    Wrong(
        "an option misspelt",
        {},
        [
            "holdfast: there is no option `--catlog`; did you mean `--catalog`?",
        ],
        arguments=["--catlog", "."],
    ),
    Wrong(
        "an option without its value",
        {},
        [
            "holdfast: `--catalog`: its value is missing; see `holdfast worker --help`",
        ],
        arguments=["--catalog"],
    ),
    Wrong(
        "an option with an empty value",
        {},
        [
            "holdfast: `--task-queue`: the text is empty; write a name",
        ],
        arguments=["--catalog", ".", "--task-queue", ""],
    ),
    Wrong(
        "a catalog that is not there",
        {},
        [
            "agnts: there is no such folder; did you mean `agents`?",
        ],
        arguments=["--catalog", "agnts"],
    ),
    Wrong(
        "a catalog that is a file",
        {},
        [
            "shop.py: this is a file; name a folder with `--catalog`",
        ],
        arguments=["--catalog", "shop.py"],
    ),
    Wrong(
        "a folder that is no catalog",
        {"other": Place.FOLDER},
        [
            "other: it has neither a folder `tools` nor a folder `agents`; make one of them, "
            "or name another folder with `--catalog`",
        ],
        arguments=["--catalog", "other"],
    ),
    Wrong(
        "the folder of tools in place of the catalog",
        {},
        [
            "tools: this is the inside of a catalog; name the folder around it: `.`",
        ],
        arguments=["--catalog", "tools"],
    ),
    Wrong(
        "endpoints that are not there",
        {},
        [
            "endpoint.yaml: there is no such file; did you mean `endpoints.yaml`?",
        ],
        arguments=["--endpoints", "endpoint.yaml"],
    ),
    Wrong(
        "endpoints that are a folder",
        {},
        [
            "agents: this is a folder; name a file",
        ],
        arguments=["--endpoints", "agents"],
    ),
    Wrong(
        "a module that is not there",
        {},
        [
            "shop.tools: there is no such module; check the name, and where it is run",
        ],
        arguments=["--tools", "shop.tools"],
    ),
    Wrong(
        "a module's file that is not there",
        {},
        [
            "shp.py: there is no such file; did you mean `shop.py`?",
        ],
        arguments=["--tools", "shp.py"],
    ),
    Wrong(
        "a file that is no module",
        {},
        [
            "./shop: this is no Python module; write its dotted name, or the path of its "
            "`.py` file",
        ],
        arguments=["--tools", "./shop"],
    ),
    Wrong(
        "a duration of the worker without a unit",
        {},
        [
            "holdfast: `--heartbeat-timeout`: `5` does not fit; a duration is a number and a "
            'unit: "500ms", "30s", "5m", "24h", "7d"',
        ],
        arguments=[*ARGUMENTS, "--heartbeat-timeout", "5"],
    ),
    Wrong(
        "an activity that tells nobody",
        {},
        [
            "--notify: this worker has no activity `chrge`; did you mean `charge`?",
        ],
        arguments=[*ARGUMENTS, "--notify", "chrge"],
    ),
    Wrong(
        "a place of knowledge that is no address",
        {},
        [
            "--knowledge-url: `docs.acme.org` is no web address; write https://…",
        ],
        arguments=[*ARGUMENTS, "--knowledge-url", "docs.acme.org"],
    ),
    Wrong(
        "the variable of the places of knowledge misspelt",
        {},
        [
            "holdfast: the variable HOLDFAST_KNOWLEDGE_URL is not read; did you mean "
            "HOLDFAST_KNOWLEDGE_URLS?",
        ],
        environment={"HOLDFAST_KNOWLEDGE_URL": "https://docs.acme.org"},
    ),
    Wrong(
        "a store that is of no kind",
        {},
        [
            "holdfast: `--store`: `gs://runs` does not fit; name a folder, or s3://BUCKET/PREFIX",
        ],
        arguments=[*ARGUMENTS, "--store", "gs://runs"],
    ),
    Wrong(
        "a store without a name",
        {},
        [
            "holdfast: `--store`: the text is empty; name a folder, or s3://BUCKET/PREFIX",
        ],
        arguments=[*ARGUMENTS, "--store", ""],
    ),
    Wrong(
        "a store where no folder can be, beside another mistake",
        {"tools/t.yaml": "_activity: chrge\n"},
        [
            "tools/t.yaml:1: `_activity`: this worker has no activity `chrge`; did you mean "
            "`charge`? (an activity of another worker needs its `taskQueue`)",
            "--store: the store /dev/null/x cannot be written to: Not a directory; let the worker "
            "write there, or choose another with `--store`",
        ],
        arguments=[*ARGUMENTS, "--store", "/dev/null/x"],
    ),
    Wrong(
        "a store where no folder can be",
        {},
        [
            "--store: the store /dev/null/x cannot be written to: Not a directory; let the worker "
            "write there, or choose another with `--store`",
        ],
        environment={"HOLDFAST_STORE": "/dev/null/x"},
    ),
    Wrong(
        "fewer than no runs in memory",
        {},
        [
            "holdfast: `--cached-runs`: `-1` does not fit; write a number from 0 to 100000; with "
            "0, none is kept",
        ],
        arguments=[*ARGUMENTS, "--cached-runs", "-1"],
    ),
    Wrong(
        "a port that is none",
        {},
        [
            "holdfast: `--dev-port`: `70000` does not fit; a port is a number up to 65535; 0 "
            "is any free one",
        ],
        arguments=[*ARGUMENTS, "--dev-port", "70000"],
    ),
    Wrong(
        "a variable misspelt",
        {},
        [
            "holdfast: the variable HOLDFAST_CATALOGUE is not read; did you mean HOLDFAST_CATALOG?",
        ],
        environment={"HOLDFAST_CATALOGUE": "."},
    ),
    Wrong(
        "a variable that does not exist",
        {},
        [
            "holdfast: the variable HOLDFAST_CHECK is not read; use `--check`",
        ],
        environment={"HOLDFAST_CHECK": "shop.py"},
    ),
    Wrong(
        "a variable with a wrong duration",
        {},
        [
            "holdfast: HOLDFAST_GRACEFUL_TIMEOUT: `10 seconds` does not fit; a duration is a "
            'number and a unit: "500ms", "30s", "5m", "24h", "7d"',
        ],
        environment={"HOLDFAST_GRACEFUL_TIMEOUT": "10 seconds"},
    ),
    Wrong(
        "a network that is an address",
        {},
        [
            "--knowledge-network: `10.1.2.3/8` is no network; write an address and how many of its "
            "bits count, like 10.0.0.0/8",
        ],
        arguments=["--catalog", ".", "--knowledge-network", "10.1.2.3/8"],
    ),
    Wrong(
        "a proxy of an unknown kind",
        {},
        [
            "the environment: a proxy that it names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be "
            "used; write it like http://proxy.acme.org:3128 (SOCKS is not supported)",
        ],
        environment={"HTTPS_PROXY": "socks5://ann:4711@proxy.acme.org"},
    ),
    Wrong(
        "a variable that names no catalog",
        {},
        [
            "nowhere: there is no such folder; check the path",
        ],
        arguments=[],
        environment={"HOLDFAST_CATALOG": "nowhere"},
    ),
    Wrong(
        "an activity on a queue of the worker",
        {"tools/t.yaml": "_activity: {type: pay, taskQueue: payments}\n"},
        [
            "tools/t.yaml:1: `_activity.type`: this worker has no activity `pay`; known: "
            "`charge`, `look_up` (an activity of another worker needs its `taskQueue`)",
        ],
        arguments=[*ARGUMENTS, "--task-queue", "payments"],
    ),
]
