"""The one page of the codec endpoint: where somebody shows its secret to their browser.

It has no script and takes nothing from anywhere. Nothing on it is anybody else's text but the
address under which the browser reached it, which was checked.
"""

import base64
import hashlib
from html import escape
from typing import Final

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;"
    "color:#1f2937;background:#fff}input,button{font:inherit;padding:.5rem .75rem;"
    "border:1px solid #6b7280;border-radius:.375rem}input{width:100%;box-sizing:border-box;"
    "margin:.25rem 0 1rem}button{background:#1f2937;color:#fff;cursor:pointer}"
    "code{background:#f3f4f6;padding:.1rem .3rem;border-radius:.25rem}.wrong{color:#b91c1c}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

# The browser is to send the form's origin, so not even this page's address is kept from itself.
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def sign_in_page(wrong: str = "") -> str:
    """The page with the form; `wrong` says why the last try was none."""
    told = f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else ""
    return _page(
        "<h1>Encrypted runs</h1>"
        "<p>This endpoint shows Temporal’s UI what is in encrypted runs: in this browser, once you "
        "have entered its secret.</p>"
        f'{told}<form method="post" action="/sign-in">'
        '<label>Secret<input type="password" name="secret" autocomplete="current-password" '
        "required autofocus></label><button>Sign in</button></form>"
    )


def signed_in_page(address: str, left_seconds: int, origins: frozenset[str]) -> str:
    """The page of somebody who is signed in: for how long, and what to do in Temporal's UI."""
    uis = ", ".join(f"<code>{escape(origin)}</code>" for origin in sorted(origins))
    hours, minutes = divmod(-(-left_seconds // 60), 60)
    return _page(
        "<h1>You are signed in</h1>"
        f"<p>For another {hours} h {minutes:02} min, in this browser.</p>"
        f"<p>Once in each browser: open Temporal’s UI ({uis}), click the glasses in its top row "
        "(<em>Configure Codec Server</em>), and choose <em>Use my browser setting</em> with</p>"
        f"<ul><li>the endpoint <code>{escape(address)}</code></li>"
        "<li><em>Include cross-origin credentials</em> switched on</li></ul>"
        '<form method="post" action="/sign-out"><button>Sign out</button></form>'
    )


def _page(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Holdfast codec endpoint</title>'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
