"""`holdfast` in an environment that leads to no server, or to the wrong one."""

from tests.contract.wrong_inputs.running import Command

SETTINGS = [
    Command(
        "an address without a port",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `localhost` is no address: it has no port; write "
        "HOST:PORT, such as localhost:7233",
        environment={"TEMPORAL_ADDRESS": "localhost"},
    ),
    Command(
        "an address with a scheme",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `http://<server>` is no address: it has a scheme; "
        "write HOST:PORT, such as <server>",
        environment={"TEMPORAL_ADDRESS": "http://<server>"},
    ),
    Command(
        "an address with a port that is none",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `127.0.0.1:port` is no address: its port is no "
        "number up to 65535; write HOST:PORT, such as 127.0.0.1:7233",
        environment={"TEMPORAL_ADDRESS": "127.0.0.1:port"},
    ),
    Command(
        "a port that is too high",
        ["list"],
        2,
        "holdfast: TEMPORAL_ADDRESS: `127.0.0.1:99999` is no address: its port is no "
        "number up to 65535; write HOST:PORT, such as 127.0.0.1:7233",
        environment={"TEMPORAL_ADDRESS": "127.0.0.1:99999"},
    ),
    Command(
        "a host that does not exist",
        ["list"],
        3,
        "holdfast: no Temporal server answers at nowhere.invalid:7233: its name is not "
        "known; check TEMPORAL_ADDRESS",
        environment={"TEMPORAL_ADDRESS": "nowhere.invalid:7233"},
    ),
    Command(
        "a port that nobody listens on",
        ["list"],
        3,
        "holdfast: no Temporal server answers at 127.0.0.1:1; start one (holdfast "
        "worker --dev) or set TEMPORAL_ADDRESS",
        environment={"TEMPORAL_ADDRESS": "127.0.0.1:1"},
    ),
    Command(
        "a server that is not Temporal",
        ["list"],
        3,
        "holdfast: no Temporal server answers at 127.0.0.1:<http>: what answers there "
        "does not speak Temporal's gRPC; set TEMPORAL_ADDRESS to the server's own port,"
        " 7233 by default (its UI has another), or TEMPORAL_TLS=true where it wants TLS",
        environment={"TEMPORAL_ADDRESS": "127.0.0.1:<http>"},
    ),
    Command(
        "a namespace that does not exist",
        ["list"],
        3,
        "holdfast: Namespace defualt is not found; set TEMPORAL_NAMESPACE",
        environment={"TEMPORAL_NAMESPACE": "defualt"},
    ),
    Command(
        "TLS to a server without",
        ["list"],
        3,
        "holdfast: no Temporal server answers at <server>: it does not speak TLS; unset"
        " TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
        environment={"TEMPORAL_TLS": "true"},
    ),
    Command(
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
    Command(
        "a certificate that is none",
        ["list"],
        3,
        "holdfast: no Temporal server answers at <server>: it does not speak TLS; unset"
        " TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
        environment={"TEMPORAL_TLS": "true", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": "<folder>/ca.pem"},
        files={"ca.pem": "no certificate"},
    ),
    Command(
        "a certificate without a key",
        ["list"],
        2,
        "holdfast: TLS has a certificate or a key alone; set both "
        "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH",
        environment={"TEMPORAL_TLS": "true", "TEMPORAL_TLS_CLIENT_CERT_DATA": "x"},
    ),
    Command(
        "TLS: maybe",
        ["list"],
        3,
        "holdfast: no Temporal server answers at <server>: it does not speak TLS; unset"
        " TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
        environment={"TEMPORAL_TLS": "maybe"},
    ),
    Command(
        "a profile that does not exist",
        ["list"],
        2,
        "holdfast: TEMPORAL_PROFILE: no profile `prod`; known: `production`",
        environment={"TEMPORAL_PROFILE": "prod", "TEMPORAL_CONFIG_FILE": "<folder>/temporal.toml"},
        files={"temporal.toml": "[profile.production]\naddress = '127.0.0.1:1'\n"},
    ),
    Command(
        "a profile without a file",
        ["list"],
        2,
        "holdfast: TEMPORAL_PROFILE: no profile `prod`; there is none: check TEMPORAL_CONFIG_FILE",
        environment={"TEMPORAL_PROFILE": "prod"},
    ),
    Command(
        "settings that are no TOML",
        ["list"],
        2,
        "holdfast: Temporal's settings cannot be read: <folder>/temporal.toml: line 1: key with no "
        "value, expected `=`; fix temporal.toml or the TEMPORAL_ variables",
        environment={"TEMPORAL_CONFIG_FILE": "<folder>/temporal.toml"},
        files={"temporal.toml": "this is no TOML"},
    ),
    Command(
        "settings with an unknown field",
        ["list", "--status", "stopped"],
        0,
        "holdfast: <folder>/temporal.toml: line 2: unknown field `adress`, expected one"
        " of `address`, `namespace`, `api_key`, `tls`, `codec`, `grpc_meta`; that is "
        "passed over",
        environment={"TEMPORAL_CONFIG_FILE": "<folder>/temporal.toml"},
        files={"temporal.toml": "[profile.default]\nadress = 'x'\n"},
    ),
    Command(
        "settings in a file that is not there",
        ["list", "--status", "stopped"],
        0,
        "holdfast: TEMPORAL_CONFIG_FILE: there is no file <folder>/none.toml; its "
        "settings are not there",
        environment={"TEMPORAL_CONFIG_FILE": "<folder>/none.toml"},
    ),
    Command(
        "an API key for a server without TLS",
        ["list"],
        3,
        "holdfast: no Temporal server answers at <server>: it does not speak TLS; unset"
        " TEMPORAL_TLS and TEMPORAL_API_KEY, which turn TLS on",
        environment={"TEMPORAL_API_KEY": "secret"},
    ),
    Command(
        "a variable that is misspelt",
        ["list", "--status", "stopped"],
        0,
        "holdfast: the variable TEMPORAL_ADRESS is not read; did you mean `TEMPORAL_ADDRESS`?",
        environment={"TEMPORAL_ADRESS": "127.0.0.1:1"},
    ),
    Command(
        "a metadata header that is none",
        ["list"],
        2,
        "holdfast: a TEMPORAL_GRPC_META_ variable makes no header; rename or unset it",
        environment={"TEMPORAL_GRPC_META_BAD KEY": "x"},
    ),
]
