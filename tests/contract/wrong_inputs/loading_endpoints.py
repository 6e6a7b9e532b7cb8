"""Endpoints that do not load."""

from tests.contract.wrong_inputs.loading import endpoints

ENDPOINTS = [
    endpoints(
        "a provider misspelt",
        "m: {provider: opnai, baseUrl: 'http://localhost:8080/v1'}\n",
        "1: `m.provider`: `opnai` does not fit; did you mean `openai`?",
    ),
    endpoints(
        "a provider that is unknown",
        "m: {provider: telepathy, baseUrl: 'http://localhost:8080/v1'}\n",
        "1: `m.provider`: `telepathy` does not fit; write `openai`, `anthropic`, "
        "`ollama`, `gemini` or `script`",
    ),
    endpoints(
        "no provider",
        "m: {baseUrl: 'http://localhost:8080/v1'}\n",
        "1: `m`: `provider` is missing; add it",
    ),
    endpoints(
        "no address", "m: {provider: openai}\n", "1: `m`: provider `openai` needs `baseUrl`; add it"
    ),
    endpoints(
        "an address without its scheme",
        "m: {provider: openai, baseUrl: 'localhost:8080/v1'}\n",
        "1: `m.baseUrl`: this is no address; write it whole, like "
        "https://api.openai.com/v1 or http://localhost:8080/v1",
    ),
    endpoints(
        "an address in a field misspelt",
        "m: {provider: openai, base_url: 'http://localhost:8080/v1'}\n",
        "1: unknown field `base_url`; did you mean `baseUrl`?",
    ),
    endpoints(
        "a script without its file",
        "m: {provider: script}\n",
        "1: `m`: provider `script` needs `file`; add it: its answers in YAML or JSON",
    ),
    endpoints(
        "a key in place of its variable",
        "m: {provider: openai, baseUrl: 'http://localhost', apiKeyEnv: sk-proj-4711}\n",
        "1: `m.apiKeyEnv`: this names no environment variable; write the name of the "
        "environment variable that holds the key, never the key",
    ),
    endpoints(
        "a key",
        "m: {provider: openai, baseUrl: 'http://localhost', apiKey: sk-proj-4711}\n",
        "1: unknown field `apiKey`; did you mean `apiKeyEnv`?",
    ),
    endpoints(
        "a key in a list of headers",
        "m: {provider: openai, baseUrl: 'http://localhost', headers: ['X-Key: sk-proj-4711']}\n",
        "1: `m.headers`: the value does not fit; write an object",
    ),
    endpoints(
        "a password in an address",
        "m: {provider: openai, baseUrl: 'https://ann:4711@gateway.acme.org/v1'}\n",
        "1: `m.baseUrl`: the address holds a user's name or password; remove the part "
        "before the `@`; `headersEnv: {authorization: VARIABLE}` has it sent, as `Basic …`, "
        "from the environment",
    ),
    endpoints(
        "a header's value in place of its variable",
        "m: {provider: openai, baseUrl: 'http://localhost', headersEnv: {x-key: sk-proj-4711}}\n",
        "1: `m.headersEnv.x-key`: this names no environment variable; write the name of the "
        "environment variable that holds the value, never the value",
    ),
    endpoints(
        "a timeout with a space",
        "m: {provider: openai, baseUrl: 'http://localhost', timeout: 30 s}\n",
        "1: `m.timeout`: `30 s` does not fit; a duration is a number and a unit: "
        '"500ms", "30s", "5m", "24h", "7d"',
    ),
    endpoints(
        "a price below nothing",
        "m: {provider: openai, baseUrl: 'http://localhost', price: {input: -1, output: 2}}\n",
        "1: `m.price.input`: `-1` does not fit; write 0 or more",
    ),
    endpoints(
        "one endpoint without a name",
        "provider: openai\nbaseUrl: http://localhost\n",
        "1: endpoints are listed by name; write each under a name of your own, `NAME: "
        "{provider: …}`, and let agents name it",
    ),
    endpoints(
        "endpoints in a list",
        "- provider: openai\n",
        "1: endpoints are listed by name; write each under a name of your own, `NAME: "
        "{provider: …}`, and let agents name it",
    ),
    endpoints(
        "an endpoint that is a text",
        "m: openai\n",
        "1: `m`: `openai` does not fit; write an object",
    ),
]
