"""Files in the input of a run and in messages to it, from a program."""

import base64
from pathlib import Path
from typing import Any

import pytest

from holdfast import HoldfastClient, read_file
from holdfast.client.errors import HoldfastError
from holdfast.runtime.attachments import MAX_MESSAGE_BYTES
from holdfast.schemas.message import ImagePart, Part, TextPart
from tests.support.backend import Launch
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

PNG = b"\x89PNG\r\n\x1a\n"
NOTE = {"_tool": "note", "_activity": "echo", "properties": {"text": {}, "times": {}}}


async def test_a_model_receives_the_files_of_an_input_and_of_a_message(
    launch: Launch, tmp_path: Path
) -> None:
    backend = await launch(
        [Answer(calls=[call("note", text="†input", times=1)]), Answer("A cat."), Answer("Paid.")]
    )
    agents = HoldfastClient(backend.client, backend.task_queue)
    # The largest that a message takes.
    (tmp_path / "cat.png").write_bytes(PNG + b"\0" * (MAX_MESSAGE_BYTES - len(PNG)))
    (tmp_path / "bill.txt").write_bytes(b"%PDF-1.7")
    (tmp_path / "page.png").write_bytes(b"<script>alert(1)</script>")
    task: list[Part] = [TextPart(text="What is it?"), read_file(tmp_path / "cat.png")]
    model = {"endpoint": "fake", "name": "fake"}
    agent: dict[str, Any] = {
        "name": "tester",
        "instructions": "Test.",
        "model": model,
        "tools": [NOTE],
    }
    run = await agents.start(agent, task, conversation=True)

    async def is_answered() -> bool:
        return (await run.status()).status == "awaiting_message"

    await eventually(is_answered)
    sent = [read_file(tmp_path / name) for name in ("bill.txt", "page.png")]
    assert await run.send([TextPart(text="And these?"), *sent]) == "Paid."

    first, called, *_, last = backend.model.requests
    data = base64.b64encode((tmp_path / "cat.png").read_bytes()).decode()
    url = {"url": f"data:image/png;base64,{data}"}
    assert first["messages"][1]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": url},
    ]
    assert called["messages"][-1]["content"] == "What is it?", "the text alone is †input"
    lie = ImagePart(media_type="image/png", data=base64.b64encode(b"<script>").decode())
    with pytest.raises(HoldfastError, match=r"^`content\[1\]` states another `mediaType`"):
        await run.send([TextPart(text="And this?"), lie])
    text, pdf, page = last["messages"][-1]["content"]
    assert text == {"type": "text", "text": "And these?"}
    assert (pdf["type"], pdf["file"]["filename"]) == ("file", "bill.txt")
    assert page == {"type": "text", "text": "page.png:\n<script>alert(1)</script>"}
    [listing] = [await run.describe()]
    assert await listing.static_summary() == "tester: What is it?"

    await run.close()
    forked = await agents.fork(run.id, "Again?", turn=1, agent=agent)
    assert await forked.result() == "A cat."
    assert backend.model.requests[-1]["messages"][1]["content"][1]["image_url"] == url
