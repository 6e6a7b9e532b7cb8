"""The command, with wrong words or in a wrong environment."""

from tests.contract.wrong_inputs.running import CommandRow

WORDS = [
    CommandRow(
        "an id that is too long",
        ["run", "helper", "--input", "go", "--id", "x" * 2000],
        2,
        "holdfast: Temporal refuses: WorkflowId exceeds maximum allowed length "
        "(2000/1000); see holdfast --help",
    ),
    CommandRow(
        "a call struck out that the plan does not have",
        ["decide", "<plan>", "t1-plan", "approve", "--strike", "t1c4"],
        2,
        "holdfast: `t1c4` is no call of this plan; it has `t1c1`, `t1c2`, `t1c3`",
    ),
    CommandRow(
        "a call struck out of a plan that does not wait",
        ["decide", "<plan>", "t2-plan", "approve", "--strike", "t1c1"],
        4,
        "holdfast: no call `t2-plan` of run <plan> waits for a decision; holdfast approvals lists"
        " the pending approvals",
    ),
]

RUNS = [
    CommandRow(
        "a skill that the agent does not have",
        ["run", "helper", "--input", "go", "--skill", "refunds", "--task-queue", "<queue>"],
        1,
        "failed: invalid_request: `skill`: agent `helper` has no skills; leave it out",
        on_screen=True,
    ),
    CommandRow(
        "an id that is taken",
        ["run", "helper", "--input", "go", "--id", "<run>", "--task-queue", "<queue>"],
        1,
        "holdfast: there is a run with the id <run>; see holdfast show <run>, or choose"
        " another --id",
    ),
    CommandRow(
        "watch a run that does not exist",
        ["watch", "unknown"],
        4,
        "holdfast: there is no run unknown; holdfast list shows the runs",
    ),
    CommandRow(
        "show another's workflow",
        ["show", "<other>"],
        4,
        "holdfast: <other> is a Other, not an agent's run or a call; holdfast list shows the runs",
    ),
    CommandRow(
        "a call that does not wait",
        ["decide", "<run>", "t9c9", "approve"],
        4,
        "holdfast: run <run> refuses: no call t9c9 waits for a decision; waiting: t1c1,"
        " t1c2; holdfast approvals lists the pending approvals",
    ),
    CommandRow(
        "send to what is no conversation",
        ["send", "<run>", "hello"],
        2,
        "holdfast: run <run> is no conversation; send it before the next turn with "
        "holdfast send <run> TEXT --steer",
    ),
    CommandRow(
        "decide in a run that has ended",
        ["decide", "<ended>", "t1c1", "approve"],
        4,
        "holdfast: run <ended> has ended; see holdfast show <ended>",
    ),
]

COMMANDS = [*WORDS, *RUNS]


SETTINGS = [
    CommandRow(
        "an address without a port",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `localhost` is no address: it has no port; write "
        "HOST:PORT, such as localhost:7233",
        environment={"TEMPORAL_ADDRESS": "localhost"},
    ),
    CommandRow(
        "an address with a scheme",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `http://<server>` is no address: it has a scheme; "
        "write HOST:PORT, such as <server>",
        environment={"TEMPORAL_ADDRESS": "http://<server>"},
    ),
    CommandRow(
        "an address with a port that is none",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `127.0.0.1:port` is no address: its port is no "
        "number up to 65535; write HOST:PORT, such as 127.0.0.1:7233",
        environment={"TEMPORAL_ADDRESS": "127.0.0.1:port"},
    ),
    CommandRow(
        "a host that does not exist",
        ["list"],
        3,
        "holdfast: no Temporal server answers at nowhere.invalid:7233: its name is not "
        "known; check TEMPORAL_ADDRESS",
        environment={"TEMPORAL_ADDRESS": "nowhere.invalid:7233"},
    ),
    CommandRow(
        "a server that is not Temporal",
        ["list"],
        3,
        "holdfast: no Temporal server answers at 127.0.0.1:<http>: the server there "
        "does not use Temporal's gRPC; set TEMPORAL_ADDRESS to the server's own port,"
        " 7233 by default (its UI has another), or TEMPORAL_TLS=true where it requires TLS",
        environment={"TEMPORAL_ADDRESS": "127.0.0.1:<http>"},
    ),
    CommandRow(
        "a namespace that does not exist",
        ["list"],
        3,
        "holdfast: Namespace defualt is not found; set TEMPORAL_NAMESPACE",
        environment={"TEMPORAL_NAMESPACE": "defualt"},
    ),
    CommandRow(
        "TLS to a server without",
        ["list"],
        3,
        "holdfast: no Temporal server answers at <server>: it does not use TLS; unset"
        " TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
        environment={"TEMPORAL_TLS": "true"},
    ),
    CommandRow(
        "a certificate that is not there",
        ["list"],
        2,
        "holdfast: <folder>/cert.pem, which Temporal's settings name, cannot be read: "
        "No such file or directory; fix temporal.toml or the TEMPORAL_ variables",
        environment={
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_CLIENT_CERT_PATH": "<folder>/cert.pem",
            "TEMPORAL_TLS_CLIENT_KEY_PATH": "<folder>/key.pem",
        },
    ),
    CommandRow(
        "a certificate without a key",
        ["list"],
        2,
        "holdfast: TLS has only one of certificate and key; set both "
        "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH",
        environment={"TEMPORAL_TLS": "true", "TEMPORAL_TLS_CLIENT_CERT_DATA": "x"},
    ),
    CommandRow(
        "a profile that does not exist",
        ["list"],
        2,
        "holdfast: TEMPORAL_PROFILE: no profile `prod`; known: `production`",
        environment={"TEMPORAL_PROFILE": "prod", "TEMPORAL_CONFIG_FILE": "<folder>/temporal.toml"},
        files={"temporal.toml": "[profile.production]\naddress = '127.0.0.1:1'\n"},
    ),
    CommandRow(
        "a profile without a file",
        ["list"],
        2,
        "holdfast: TEMPORAL_PROFILE: no profile `prod`; there is none: check TEMPORAL_CONFIG_FILE",
        environment={"TEMPORAL_PROFILE": "prod"},
    ),
    CommandRow(
        "settings that are no TOML",
        ["list"],
        2,
        "holdfast: Temporal's settings cannot be read: <folder>/temporal.toml: line 1: key with no "
        "value, expected `=`; fix temporal.toml or the TEMPORAL_ variables",
        environment={"TEMPORAL_CONFIG_FILE": "<folder>/temporal.toml"},
        files={"temporal.toml": "this is no TOML"},
    ),
    CommandRow(
        "settings with an unknown field",
        ["list", "--status", "stopped"],
        0,
        "holdfast: <folder>/temporal.toml: line 2: unknown field `adress`, expected one"
        " of `address`, `namespace`, `api_key`, `tls`, `codec`, `grpc_meta`; it is "
        "ignored",
        environment={"TEMPORAL_CONFIG_FILE": "<folder>/temporal.toml"},
        files={"temporal.toml": "[profile.default]\nadress = 'x'\n"},
    ),
    CommandRow(
        "settings in a file that is not there",
        ["list", "--status", "stopped"],
        0,
        "holdfast: TEMPORAL_CONFIG_FILE: there is no file <folder>/none.toml; its "
        "settings are not used",
        environment={"TEMPORAL_CONFIG_FILE": "<folder>/none.toml"},
    ),
    CommandRow(
        "a variable that is misspelt",
        ["list", "--status", "stopped"],
        0,
        "holdfast: the variable TEMPORAL_ADRESS is not read; did you mean `TEMPORAL_ADDRESS`?",
        environment={"TEMPORAL_ADRESS": "127.0.0.1:1"},
    ),
    CommandRow(
        "a metadata header that is none",
        ["list"],
        2,
        "holdfast: a TEMPORAL_GRPC_META_ variable makes no header; rename or unset it",
        environment={"TEMPORAL_GRPC_META_BAD KEY": "x"},
    ),
]
