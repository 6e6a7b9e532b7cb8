"""A provider's statement that its model takes no tools, and the errors that only name tools."""

import pytest

from holdfast.providers.base import ProviderRefused, ToolsUnsupported
from tests.providers.fakes import TOOLS, ask
from tests.providers.test_parameter_fallback import refusing
from tests.providers.transport.test_http import solve


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/tiny:latest does not support tools"),
        (404, "No endpoints found that support tool use. To learn more, visit: https://x.test"),
        (404, "tools is not supported in this model. For a list of supported models, refer to x"),
        (400, "deepseek-reasoner does not support Function Calling"),
        (400, "Function calling is not enabled for models/gemma-3-27b-it"),
        (400, "This model doesn't support tool use."),
        (400, "Tool calling is not supported for this model"),
        (500, "Unsupported param: tools"),
    ],
)
async def test_the_statement_that_a_model_takes_no_tools_is_an_error_of_its_own(
    status: int, message: str
) -> None:
    handle, asked = refusing(status, message, "tools")
    with pytest.raises(ToolsUnsupported) as unsupported:
        await solve(handle, ask(tools=TOOLS))
    assert (unsupported.value.message, len(asked)) == (message, 1)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        # Tools that are switched off: their operator needs the error.
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (500, "tools param requires --jinja flag"),
        # A schema's keyword, an image, an account, a kind of tool.
        (400, "Invalid schema for function 'refund': 'oneOf' is not supported in tools"),
        (400, "tools.0.input_schema: `pattern` is not supported"),
        (400, "image input is not supported together with tools"),
        (400, "your plan does not support tools, see https://x.test/plans"),
        (400, "'claude-3-5-sonnet' does not support tool types: computer_20241022."),
        (403, "tiny does not support tools"),
    ],
)
async def test_an_error_that_only_names_tools_leaves_none_out(status: int, message: str) -> None:
    handle, asked = refusing(status, message, "tools")
    with pytest.raises(ProviderRefused) as refused:
        await solve(handle, ask(tools=TOOLS))
    assert (refused.value.message, len(asked)) == (message, 1)


async def test_a_statement_about_tools_that_were_not_sent_is_an_error_like_any_other() -> None:
    handle, _ = refusing(400, "tiny does not support tools", "messages")
    with pytest.raises(ProviderRefused):
        await solve(handle, ask())
