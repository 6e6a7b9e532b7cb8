"""Holdfast's own program with the plugins, the converter and the codec of a company."""

import uuid
from pathlib import Path

import pytest
from temporalio.client import Client

from holdfast.client.connection import client_converter
from tests.encryption.keys import NEW, key_file
from tests.library.acme.activities.orders import LEDGER
from tests.library.acme.encoding import ENCODING
from tests.library.acme.worker import DESK
from tests.support.backend import Run
from tests.support.command import Holdfast
from tests.support.process import command

PLUGINS = ("openai_agents", "CompanyPlugin", "work")
CONVERTER = "tests.library.acme.encoding:converter"


@pytest.mark.usefixtures("quick_starts")
async def test_it_runs_the_company_s_work_and_encodes_as_the_company_does(
    client: Client,
    holdfast: Holdfast,
    endpoints: Path,
    refunds: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = str(key_file(tmp_path, [NEW]))
    monkeypatch.setenv("HOLDFAST_ENCRYPTION", keys)
    monkeypatch.setenv("HOLDFAST_CONVERTER", CONVERTER)
    task_queue = f"company-{uuid.uuid4().hex[:8]}"
    words = ["--catalog", str(DESK), "--endpoints", str(endpoints), "--task-queue", task_queue]
    words += [f"--plugin=tests.library.acme.plugins:{each}" for each in PLUGINS]
    words += [
        "--tools",
        "tests.library.acme.agents",
        "--converter",
        CONVERTER,
        "--encryption",
        keys,
    ]
    address = client.service_client.config.target_host
    async with command(*words, address=address, **{LEDGER: str(refunds)}) as worker:
        await worker.until("holdfast worker ready")
        asked = ("run", "support", "--input", "It is broken!", "--task-queue", task_queue)
        id = (await holdfast(*asked, "--detach")).out.strip()
        run = Run(client.get_workflow_handle(id), client)
        await run.listed()
        assert f"{run.id}  t1c1" in (await holdfast("approvals")).out
        assert (await holdfast("decide", run.id, "t1c1", "approve")).code == 0
        assert "It is refunded." in (await holdfast("watch", run.id)).out
        assert refunds.read_text() == "7\n"

        started = (await run.history())[0].workflow_execution_started_event_attributes
        [theirs] = started.input.payloads
        assert theirs.metadata["encoding"] == ENCODING
        converter = client_converter(keys, "--encryption")
        assert (await converter.decode([theirs]))[0]["agent"] == "support"

        monkeypatch.delenv("HOLDFAST_CONVERTER")
        without = await holdfast("show", run.id)
        assert (without.code, without.err) == (
            2,
            "holdfast: this has the encoding `binary/company`, unknown here; set "
            "HOLDFAST_CONVERTER to that of the workers\n",
        )
