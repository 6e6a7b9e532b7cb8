"""§11: a principal's token, which anybody may have who reads histories, is good for what it is for,
and for nothing else."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from holdfast.activities.check_token import CheckTokenActivity
from holdfast.runtime.identity.key_sets import load_key_sets
from holdfast.schemas.settings.keys import AUDIENCES
from tests.support.signing import NONCE, Approver, write_keys
from tests.web.auth.test_sign_in_methods import bearer, for_programs

ANN = Approver("ann")
DECISION: dict[str, Any] = {"digest": "0" * 64, "nonce": NONCE, "workflowId": "run-1"}


async def test_a_token_is_good_for_one_use(tmp_path: Path) -> None:
    """One set of keys, for all uses, of a worker and an inbox."""
    nowhere = await Client.connect("127.0.0.1:1", lazy=True)
    keys = str(write_keys(tmp_path / "keys.json", ANN))
    sets = load_key_sets(keys, httpx.AsyncClient())
    checker = CheckTokenActivity(sets)
    caught = {"a principal": ANN.principal("ann"), "all": ANN.token(aud=[*AUDIENCES.values()])}
    async with for_programs(nowhere, *sets) as inbox:
        for what, token in caught.items():
            answer = await inbox.http.get("/", headers=bearer(token))
            assert (answer.status_code, "`aud`" in answer.text) == (401, True), what
        assert (await inbox.http.get("/", headers=bearer(ANN.program()))).is_success
    for purpose, good in (("decision", "decisions"), ("principal", "principals")):
        for use, audience in AUDIENCES.items():
            claims = DECISION if purpose == "decision" else {}
            check = {"token": ANN.token(sub="ann", aud=audience, **claims), "nonce": NONCE}
            if use == good:
                await checker.check_token({**check, "purpose": purpose})
                continue
            with pytest.raises(ApplicationError, match="another audience"):
                await checker.check_token({**check, "purpose": purpose})
