"""Which model plays the agent: what `--model` means for the worker's catalog and endpoints.

The agent, its tools and its instructions are the same for every model but the local one, which gets
a smaller task. Otherwise the agent's copy in the demonstration's folder differs in its `model`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from examples.local_model.serve import MODEL_NAME, NotServedError, serve

HERE = Path(__file__).resolve().parent
AGENT = "support_desk"
SCRIPT = "script"
LOCAL = "local"
# A model of 135 million parameters makes one call of one tool, which the message spells out.
SMALL_REQUEST = "Refund 249 euros for order 1042. It arrived broken."
SMALL: dict[str, Any] = {"tools": ["refund_order"], "budget": {"maxCalls": 1, "maxTurns": 3}}
SMALL_INSTRUCTIONS = "You work at a support desk. Do what the message asks for with your tool."


class MiscastError(Exception):
    """`--model` names no model that can be asked; the message says what to do."""


@dataclass(frozen=True)
class Cast:
    """The worker's catalog and endpoints, what people are told of the model, and its task.

    Without `endpoints`, the worker takes those that the environment speaks of.
    """

    catalog: Path
    endpoints: Path | None
    told: str
    request: str = field(default_factory=(HERE / "request.txt").read_text)


@contextmanager
def cast(model: str, folder: Path) -> Iterator[Cast]:
    """Have the agent played by `model`, for as long as the block lasts.

    Args:
        model: `script`, `local`, or `ENDPOINT:NAME`.
        folder: where the agent's copy is written.

    Raises:
        MiscastError: there is no such model here.
    """
    match model.partition(":"):
        case (spoken, "", "") if spoken == SCRIPT:
            told = "answers from script.yaml; for a real model: make demo MODEL=local"
            yield Cast(HERE, HERE / "endpoints.yaml", told)
        case (spoken, "", "") if spoken == LOCAL:
            with _served() as url:
                own = folder / "endpoints.yaml"
                own.write_text(yaml.safe_dump({LOCAL: {"provider": "openai", "baseUrl": url}}))
                told = f"{MODEL_NAME} on this machine, a very small mind: it gets a small task"
                catalog = _played_by(LOCAL, MODEL_NAME, folder, SMALL_INSTRUCTIONS, **SMALL)
                yield Cast(catalog, own, told, SMALL_REQUEST)
        case (endpoint, ":", name) if endpoint and name:
            endpoints = _endpoints_with(endpoint)
            told = f"{name} of the endpoint {endpoint}"
            yield Cast(_played_by(endpoint, name, folder), endpoints, told)
        case _:
            raise MiscastError(
                f"'{model}' is no model; say script, local, or ENDPOINT:NAME such as openai:NAME"
            )


@contextmanager
def _served() -> Iterator[str]:
    try:
        with serve() as url:
            yield url
    except NotServedError as error:
        raise MiscastError(str(error)) from error


def _endpoints_with(endpoint: str) -> Path | None:
    """The user's file of endpoints; None for the endpoint `openai` of the environment."""
    if file := os.environ.get("HOLDFAST_ENDPOINTS"):
        return Path(file).absolute()
    if endpoint == "openai" and os.environ.get("OPENAI_API_KEY"):
        return None
    raise MiscastError(
        f"where is the endpoint '{endpoint}'? Set HOLDFAST_ENDPOINTS to the file that has it,"
        " or OPENAI_API_KEY for the endpoint openai"
    )


def _played_by(
    endpoint: str, name: str, folder: Path, instructions: str = "", **changes: Any
) -> Path:
    """A catalog with a copy of the agent that another model plays."""
    _, front, own = (HERE / "agents" / f"{AGENT}.md").read_text("utf-8").split("---\n", 2)
    agent = yaml.safe_load(front) | changes
    agent["model"] |= {"endpoint": endpoint, "name": name}
    copy = folder / "catalog" / "agents" / f"{AGENT}.md"
    copy.parent.mkdir(parents=True)
    front = yaml.safe_dump(agent, sort_keys=False)
    copy.write_text(f"---\n{front}---\n{instructions or own}", encoding="utf-8")
    return folder / "catalog"
