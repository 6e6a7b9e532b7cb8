"""Documents beside images, in each provider's terms, checked by the types of its package."""

import json
from typing import Any

import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import TOOLS, chat_message, sent_body
from tests.providers.test_conformance import BY_KIND, Exchange, called, good, resulted

DATA = "JVBERi0xLjc="
INLINE = f"data:application/pdf;base64,{DATA}"
TEXT = {"type": "text", "text": "When does it end?"}
DOCUMENT = {"type": "document", "data": DATA, "name": "contract.pdf"}
REMOTE = {"type": "document", "url": "https://shop.example/contract.pdf"}
UNFETCHED = "(a document at https://shop.example/contract.pdf, which was not fetched)"
URL = REMOTE["url"]
PARTS: dict[ProviderName, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai": (
        {"type": "file", "file": {"filename": "contract.pdf", "file_data": INLINE}},
        {"type": "text", "text": UNFETCHED},
    ),
    "openai-responses": (
        {"type": "input_file", "filename": "contract.pdf", "file_data": INLINE},
        {"type": "input_file", "file_url": URL},
    ),
    "anthropic": (
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
            "title": "contract.pdf",
        },
        {"type": "document", "source": {"type": "url", "url": URL}},
    ),
    "gemini": (
        {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
        {"fileData": {"fileUri": URL, "mimeType": "application/pdf"}},
    ),
    "bedrock": (
        {
            "document": {
                "format": "pdf",
                "name": "contract-pdf 1f238a37",
                "source": {"bytes": DATA},
            }
        },
        {"text": UNFETCHED},
    ),
}


def parts(kind: ProviderName, *messages: ChatMessage) -> list[Any]:
    """The parts of the last message of a request."""
    body = json.loads(sent_body(FORMATS[kind], *messages))
    last = next(body[name] for name in ("messages", "input", "contents") if name in body)[-1]
    found: list[Any] = last.get("content") or last.get("parts")
    for part in found:
        part.pop("cache_control", None)
    return found


@pytest.mark.parametrize("kind", PARTS)
async def test_a_document_is_sent_beside_a_text(kind: ProviderName) -> None:
    inline, remote = PARTS[kind]
    assert parts(kind, chat_message("user", [TEXT, DOCUMENT]))[-1] == inline
    assert parts(kind, chat_message("user", [TEXT, REMOTE]))[-1] == remote
    wire = BY_KIND[kind]
    exchange = Exchange(wire, good(wire.answer("In June.")))
    await exchange.solve(chat_message("user", [TEXT, DOCUMENT]))
    assert exchange.seen[0].texts == [TEXT["text"]]


@pytest.mark.parametrize("kind", PARTS)
async def test_a_document_of_a_result_is_sent_with_it_or_behind_it(kind: ProviderName) -> None:
    wire = BY_KIND[kind]
    exchange = Exchange(wire, good(wire.answer("In June.")))
    found = resulted(1, [TEXT, DOCUMENT])
    await exchange.solve(chat_message("user", "Hi"), called("Oslo"), found, tools=TOOLS)
    [result] = exchange.seen[0].results
    assert result.text.startswith(TEXT["text"])
    conversation = (chat_message("user", "Hi"), called("Oslo"), found)
    assert DATA.encode() in sent_body(FORMATS[kind], *conversation, tools=TOOLS)


@pytest.mark.parametrize("kind", PARTS)
def test_a_document_of_a_system_message_follows_it(kind: ProviderName) -> None:
    assert (
        parts(kind, chat_message("user", "Hi"), chat_message("system", [TEXT, DOCUMENT]))[-1]
        == PARTS[kind][0]
    )


@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_document_alone_has_a_text_on_bedrock(role: str) -> None:
    assert parts("bedrock", chat_message(role, [DOCUMENT]))[0] == {
        "text": "(a message without a text)"
    }


def test_a_document_s_name_on_bedrock_has_no_two_spaces_in_a_row() -> None:
    odd = {**DOCUMENT, "name": "Report -  Final (2).pdf"}
    [_, part] = parts("bedrock", chat_message("user", [TEXT, odd]))
    assert part["document"]["name"] == "Report---Final-(2)-pdf 1f238a37"


def test_every_format_carries_images_and_all_but_ollama_s_documents() -> None:
    assert {kind for kind, spoken in FORMATS.items() if "document" not in spoken.carries} == {
        "ollama"
    }
    assert all("image" in spoken.carries for spoken in FORMATS.values())
