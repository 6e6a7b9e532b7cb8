"""Files in the input of a run and in messages to it, from a program."""

import base64
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast import HoldfastClient, read_file
from holdfast.client.errors import HoldfastError, NoSuchRunError
from holdfast.client.holdfast_client import forget_principal
from holdfast.client.result import RunFailedError
from holdfast.client.run_lists import RunFilter
from holdfast.client.start import RunExistsError, StartRequest
from holdfast.runtime.attachments import MAX_INLINE_BYTES, file_part
from holdfast.runtime.data_converter import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.run_files import RunFiles
from holdfast.schemas.base import sha256
from holdfast.schemas.message import ImagePart, Part, StoredFile, TextPart
from holdfast.schemas.run import RunRequest
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
    # The largest that a message has in itself.
    (tmp_path / "cat.png").write_bytes(PNG + b"\0" * (MAX_INLINE_BYTES - len(PNG)))
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


def with_folder(client: Client, folder: Path) -> Client:
    config = client.config()
    config["data_converter"] = with_store(client.data_converter, FolderStore(folder))
    return Client(**config)


def own_files(store: Path, run: str) -> list[str]:
    return sorted(each.name for each in (store / "runs" / sha256(run.encode())).glob("*"))


async def test_large_files_are_in_the_store_and_go_with_their_run_alone(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    store, person = tmp_path / "store", f"ada-{uuid.uuid4().hex[:8]}"
    answers = [Answer("A cat."), Answer("A dog.")]
    backend = await launch(answers, client=with_folder(client, store))
    agents = HoldfastClient(backend.client, backend.task_queue)
    cat, dog = (PNG + bytes([n]) * 1_200_000 for n in (1, 2))
    bill = b"%PDF-1.7" + b"\0" * 1_100_000
    agent: dict[str, Any] = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}
    task = [TextPart(text="What is it?"), file_part("cat.png", cat), file_part("bill.pdf", bill)]
    run = await agents.start(agent, task, conversation=True, principal={"id": person})
    assert await run.send([file_part("dog.png", dog)]) == "A dog."
    assert own_files(store, run.id) == sorted(map(sha256, (cat, dog, bill)))
    history = await backend.client.get_workflow_handle(run.id).fetch_history()
    assert sum(event.ByteSize() for event in history.events) < 50_000
    [_, picture, document], [other] = [
        message["content"]
        for message in backend.model.requests[1]["messages"]
        if message["role"] == "user"
    ]
    for part, data in ((picture, cat), (other, dog)):
        url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        assert part["image_url"]["url"] == url
    assert base64.b64encode(bill).decode() in document["file"]["file_data"]

    await run.close()
    forked = await agents.fork(run.id, "Again?", turn=1, agent=agent)
    assert await forked.result() == "A dog."
    ended = RunFilter(principal=person, status="completed")

    async def is_listed() -> bool:
        return bool(await agents.list_runs(ended))

    await eventually(is_listed)
    assert await forget_principal(agents, person, runs=True) == (0, 1, 3)
    assert own_files(store, run.id) == []
    assert own_files(store, forked.id) == sorted(map(sha256, (cat, bill)))


async def test_nothing_is_deleted_under_an_id_that_another_principal_has_too(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    store, people = tmp_path / "store", [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("a", "b")]
    backend = await launch([Answer("Hi."), Answer("Hi.")], client=with_folder(client, store))
    agents = HoldfastClient(backend.client, backend.task_queue)
    agent: dict[str, Any] = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}
    id = f"guest 1-{uuid.uuid4().hex[:8]}"
    first = await agents.start(agent, "Hi", id=id, principal={"id": people[0]})
    assert await first.result() == "Hi."
    executed = (await first.describe()).run_id
    request = {"agent": agent, "input": "Hi", "principal": {"id": people[1]}, "conversation": True}
    await backend.client.start_workflow(
        "AgentWorkflow", request, id=id, task_queue=backend.task_queue
    )
    await RunFiles(FolderStore(store)).keep(id, file_part("cat.png", PNG))

    async def are_listed() -> bool:
        listed = await agents.list_runs(f'WorkflowId = "{id}"', None)
        return {each.principal for each in listed} == {*people} and bool(
            await agents.list_runs(RunFilter(principal=people[0], status="completed"))
        )

    await eventually(are_listed)
    with pytest.raises(HoldfastError) as refused:
        await forget_principal(agents, people[0], runs=True)
    assert str(refused.value) == (
        f"another principal may have a run with the id {id}, and files in it; delete this one"
        f" alone: temporal workflow delete --workflow-id '{id}' --run-id {executed}"
    )
    assert own_files(store, id) == [sha256(PNG)]
    assert await forget_principal(agents, people[0], runs=False) == (0, 1, 0)


async def test_no_file_is_stored_for_a_run_that_does_not_exist_or_is_another(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    backend = await launch([Answer("Hi.")], client=with_folder(client, store))
    agents = HoldfastClient(backend.client, backend.task_queue)
    agent: dict[str, Any] = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}
    cat = file_part("cat.png", PNG + b"\0" * 1_200_000)
    with pytest.raises(NoSuchRunError):
        await agents.run("no-such-run").send([cat])
    run = await agents.start(agent, "Hi")
    again = await agents.start(agent, [cat], id=run.id)
    assert await again.result() == "Hi."
    task = RunRequest.model_validate({"agent": agent, "input": [cat.to_json()]})
    new = StartRequest.of(task, task.to_json())
    with pytest.raises(RunExistsError):
        await agents.start_request(new, run.id)
    assert not (store / "runs").exists()


async def test_a_run_whose_file_is_lost_fails_with_one_line(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    backend = await launch([Answer("never")], client=with_folder(client, tmp_path / "store"))
    agents = HoldfastClient(backend.client, backend.task_queue)
    other = StoredFile(sha256=sha256(b"another run's"), size_bytes=10)
    part = ImagePart(name="cat.png", media_type="image/png", stored=other)
    agent: dict[str, Any] = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}
    run = await agents.start(agent, [TextPart(text="What is it?"), part])
    with pytest.raises(RunFailedError, match=r"the file cat.png of the run: the store .* has no"):
        await run.result()
    assert backend.model.requests == []
