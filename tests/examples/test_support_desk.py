"""The support desk: its tools against a real database, and what it is made of."""

import ast
import dataclasses
import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from examples.support_desk import shop, tools
from examples.support_desk.own_orders import look_up_own_order
from examples.support_desk.tools import (
    CancelShipment,
    LookUpOrder,
    RefundOrder,
    SearchOrders,
    SendMail,
)
from holdfast.schemas.run import CallContext, CallPrincipal
from tests.encryption.keys import OLD, key_file
from tests.support.backend import Launch
from tests.support.command import holdfast
from tests.support.model_server import Answer
from tests.support.model_server import call as model_calls

Result = TypeVar("Result")
EXAMPLE = Path(tools.__file__).parent

REFUND = RefundOrder(order_id=1042, amount=249, reason="arrived broken")
CANCEL = CancelShipment(shipment_id="S-2057", reason="no longer wanted")
MAIL = SendMail(to="ada@example.com", subject="Your refund", body="It is on its way.\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a freshly opened shop."""
    shop.open_shop(tmp_path)
    monkeypatch.setenv("SUPPORT_DESK_DIR", str(tmp_path))
    return tmp_path


def call(tool: Callable[[Any], Result], arguments: BaseModel, activity_id: str = "t1c1") -> Result:
    """Carry a tool out as the activity `activity_id` of the workflow `ada`."""
    env = ActivityEnvironment()
    env.info = dataclasses.replace(env.info, workflow_id="ada", activity_id=activity_id)
    return env.run(tool, arguments)


def refused(tool: Callable[[Any], Any], arguments: BaseModel, activity_id: str = "t1c1") -> str:
    """The message with which a tool refuses for good."""
    with pytest.raises(ApplicationError) as caught:
        call(tool, arguments, activity_id)
    assert caught.value.non_retryable
    return caught.value.message


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "orders.db")) as db:
        return db.execute(query).fetchall()


UNKNOWN = "no order 7; search by customer first"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (
            tools.search_orders,
            SearchOrders(customer="Babbage"),
            "no orders of 'Babbage'; try the e-mail address",
        ),
        # No wildcard.
        (
            tools.search_orders,
            SearchOrders(customer="%%"),
            "no orders of '%%'; try the e-mail address",
        ),
        (tools.look_up_order, LookUpOrder(order_id=7), UNKNOWN),
        (tools.refund_order, REFUND.model_copy(update={"order_id": 7}), UNKNOWN),
        (
            tools.refund_order,
            REFUND.model_copy(update={"amount": 10.005}),
            "10.005 has fractions of a cent; round it",
        ),
        (
            tools.cancel_shipment,
            CANCEL.model_copy(update={"shipment_id": "S-1"}),
            "no shipment S-1; look up the order first, it lists them",
        ),
        (
            tools.cancel_shipment,
            CANCEL.model_copy(update={"shipment_id": "S-2042"}),
            "shipment S-2042 is delivered already and cannot be cancelled",
        ),
        (
            tools.send_mail,
            MAIL.model_copy(update={"to": "eve@example.com"}),
            "no customer has the address 'eve@example.com'; take it from the order",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    folder: Path, tool: Callable[[Any], Any], arguments: BaseModel, message: str
) -> None:
    assert refused(tool, arguments) == message
    assert shop.deeds(folder) == []


# --- reading ---------------------------------------------------------------------------


@pytest.mark.parametrize("customer", ["ada@example.com", "LOVELACE", "Ada Lovelace", "lace <ada"])
def test_orders_are_found_by_any_part_of_name_or_address_newest_first(
    folder: Path, customer: str
) -> None:
    found = call(tools.search_orders, SearchOrders(customer=customer))
    assert [order.order_id for order in found] == [1057, 1042, 1031]
    assert found[1].items == ["1 × Espresso machine Classico"]


def test_a_search_returns_no_more_than_its_limit(folder: Path) -> None:
    found = call(tools.search_orders, SearchOrders(customer="example.com", limit=2))
    assert [order.order_id for order in found] == [1057, 1049]


def test_an_order_has_its_customer_items_shipments_and_refunds(folder: Path) -> None:
    call(tools.refund_order, RefundOrder(order_id=1042, amount=20.5, reason="a scratch"))
    order = call(tools.look_up_order, LookUpOrder(order_id=1042))
    assert (order.customer, order.email) == ("Ada Lovelace", "ada@example.com")
    assert (order.total, order.refunded) == (249.0, 20.5)
    assert [(s.shipment_id, s.status) for s in order.shipments] == [("S-2042", "delivered")]


def test_without_a_database_every_tool_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPPORT_DESK_DIR", str(tmp_path))
    message = refused(tools.look_up_order, LookUpOrder(order_id=1042))
    assert message.startswith(f"no orders database at {tmp_path / 'orders.db'}")
    assert not (tmp_path / "orders.db").exists()


# --- refunds ---------------------------------------------------------------------------


def test_a_refund_is_recorded_in_cents_with_its_reason(folder: Path) -> None:
    refund = call(tools.refund_order, REFUND)
    assert (refund.refund_id, refund.paid_back) == ("R-1", "249.00 EUR")
    recorded = rows(folder, "SELECT key, order_id, cents, reason FROM refunds")
    assert recorded == [("ada/t1c1", 1042, 24900, "arrived broken")]


def test_a_refund_executed_again_under_its_key_pays_once(folder: Path) -> None:
    first = call(tools.refund_order, REFUND)
    assert call(tools.refund_order, REFUND) == first
    assert rows(folder, "SELECT count(*) FROM refunds") == [(1,)]


def test_another_call_is_another_refund(folder: Path) -> None:
    part = RefundOrder(order_id=1042, amount=100, reason="a scratch")
    call(tools.refund_order, part, "t1c1")
    assert call(tools.refund_order, part, "t2c1").refund_id == "R-2"


def test_no_more_is_refunded_than_was_paid(folder: Path) -> None:
    call(tools.refund_order, RefundOrder(order_id=1042, amount=200, reason="a scratch"))
    message = refused(tools.refund_order, REFUND, "t2c1")
    assert message.startswith("at most 49.00 of order 1042 can be refunded")
    assert rows(folder, "SELECT sum(cents) FROM refunds") == [(20000,)]


@pytest.mark.parametrize("amount", [0.29, 1.1, 19.99, 248.99])
def test_every_amount_of_whole_cents_is_accepted(folder: Path, amount: float) -> None:
    refund = RefundOrder(order_id=1042, amount=amount, reason="a scratch")
    assert call(tools.refund_order, refund).paid_back == f"{amount:.2f} EUR"


# --- shipments -------------------------------------------------------------------------


def test_a_cancelled_shipment_was_asked_of_the_carrier_who_charges_for_it(folder: Path) -> None:
    cancelled = call(tools.cancel_shipment, CANCEL)
    assert (cancelled.status, cancelled.fee) == ("cancelled", 4.5)
    assert rows(folder, "SELECT shipment_id FROM carrier_requests") == [("S-2057",)]
    assert rows(folder, "SELECT id FROM shipments WHERE status = 'cancelled'") == [("S-2057",)]


def test_a_cancellation_cut_off_after_the_carrier_was_asked_would_cost_twice_if_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why the tool has `_idempotent: false`."""
    asked = tools._ask_carrier

    def asked_then_cut_off(cancel: CancelShipment) -> int:
        asked(cancel)
        raise KeyboardInterrupt

    monkeypatch.setattr(tools, "_ask_carrier", asked_then_cut_off)
    with pytest.raises(KeyboardInterrupt):
        call(tools.cancel_shipment, CANCEL)
    monkeypatch.setattr(tools, "_ask_carrier", asked)
    call(tools.cancel_shipment, CANCEL)
    assert rows(folder, "SELECT sum(fee_cents) FROM carrier_requests") == [(900,)]


# --- mail ------------------------------------------------------------------------------


def test_a_mail_is_a_file_that_any_mail_program_opens(folder: Path) -> None:
    sent = call(tools.send_mail, MAIL.model_copy(update={"body": "Liebe Ada, 249 € sind da.\n"}))
    message = message_from_bytes(
        (folder / "outbox" / f"{sent.mail_id}.eml").read_bytes(), policy=policy.default
    )
    assert (message["To"], message["Subject"]) == ("ada@example.com", "Your refund")
    assert message.get_content() == "Liebe Ada, 249 € sind da.\n"


def test_a_mail_executed_again_under_its_key_is_sent_once(folder: Path) -> None:
    first = call(tools.send_mail, MAIL)
    path = folder / "outbox" / f"{first.mail_id}.eml"
    written = path.read_bytes()
    assert call(tools.send_mail, MAIL.model_copy(update={"subject": "Again"})) == first
    assert path.read_bytes() == written
    assert call(tools.send_mail, MAIL, "t2c1") != first
    assert len(list((folder / "outbox").iterdir())) == 2


def test_a_subject_cannot_smuggle_in_a_header(folder: Path) -> None:
    subject = "Hello\r\nBcc: eve@example.com"
    sent = call(tools.send_mail, MAIL.model_copy(update={"subject": subject}))
    written = (folder / "outbox" / f"{sent.mail_id}.eml").read_bytes()
    assert message_from_bytes(written)["Bcc"] is None


# --- a customer's own orders ------------------------------------------------------------


def own_order(order_id: int, customer: str | None) -> tools.Order:
    """An order that a model looks up, for this customer."""
    context = CallContext(
        run_id="ada",
        call_id="t1c1",
        idempotency_key="ada/t1c1",
        principal=None if customer is None else CallPrincipal(id=customer),
    )
    return look_up_own_order(order_id, context)


@pytest.mark.parametrize("customer", [None, "alan@example.com", "ada@example.co"])
def test_an_order_of_another_customer_is_like_one_that_does_not_exist(
    folder: Path, customer: str | None
) -> None:
    assert own_order(1042, "ada@example.com").total == 249
    with pytest.raises(ApplicationError, match="no order 1042; search"):
        own_order(1042, customer)


async def test_an_agent_reads_the_orders_of_its_principal_alone(
    folder: Path, launch: Launch
) -> None:
    reads = [model_calls("look_up_own_order", order_id=number) for number in (1042, 1049)]
    home = await launch(
        [Answer(calls=reads), Answer("done")],
        tools=["examples.support_desk.own_orders"],
        catalog=None,
        permits=key_file(folder, [OLD]),
    )
    run = await home.start(["look_up_own_order"], principal={"id": "ada@example.com"})
    await run.result()

    own, other = (await run.results()).values()
    assert json.loads(own)["email"] == "ada@example.com"
    assert json.loads(other)["error"]["message"] == "no order 1049; search by customer first"


# --- a reader's own ---


async def test_the_steps_to_a_desk_of_ones_own_lead_to_files_that_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    steps, desk = readme.partition("## Your own")[2], tmp_path / "my_desk"
    desk.mkdir()
    [copied] = re.findall(r"^1\. Copy (.*) into", steps, re.MULTILINE)
    for name in re.findall("`(.*?)`", copied):
        copy = shutil.copytree if (EXAMPLE / name).is_dir() else shutil.copy
        copy(EXAMPLE / name, desk / name)
    model = re.search(
        r"4\. Write .*?`(mine: .*?)`, and name `mine` and the model", steps, re.DOTALL
    )
    assert model
    (desk / "endpoints.yaml").write_text(model[1])
    agent = desk / "agents/support_desk.md"
    named = agent.read_text().replace("endpoint: demo", "endpoint: mine")
    agent.write_text(named.replace("name: script", "name: large"))
    [worker] = re.findall(r"holdfast worker --dev (.*)", steps)
    monkeypatch.chdir(tmp_path)

    said = await holdfast("check", *worker.split())
    assert (said.code, said.err) == (0, "")
    assert said.out == "5 tools, 1 agent, endpoints mine: OK\n"


# --- what it is made of ----------------------------------------------------------------


def test_the_tools_import_temporalio_pydantic_and_the_standard_library_alone() -> None:
    tree = ast.parse(Path(tools.__file__).read_text())
    imports = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imports - set(sys.stdlib_module_names) == {"temporalio", "pydantic"}


def test_the_shop_reports_what_was_done_and_where_it_is_recorded(folder: Path) -> None:
    assert shop.deeds(folder) == []
    call(tools.refund_order, REFUND)
    call(tools.cancel_shipment, CANCEL)
    sent = call(tools.send_mail, MAIL)
    assert shop.deeds(folder) == [
        ("orders.db, refunds", "R-1: 249.00 for order 1042, arrived broken"),
        ("orders.db, shipments", "S-2057 is cancelled"),
        ("orders.db, carrier_requests", "asked to stop S-2057, fee 4.50"),
        (f"outbox/{sent.mail_id}.eml", "to ada@example.com: Your refund"),
    ]
