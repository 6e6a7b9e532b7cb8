"""The name, the logo and the color of an organization, on every page of its inbox.

Inline styles are forbidden, so the color is a stylesheet. It and the logo are static files, served
without authentication: the sign-in page has them, too.
"""

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

LOGO_PATH: Final = "/static/organization"
STYLE_PATH: Final = "/static/organization.css"
LOGO_TYPES: Final = {".png": "image/png", ".svg": "image/svg+xml", ".webp": "image/webp"}
MAX_LOGO_BYTES: Final = 100_000
# An SVG that is opened by its address: it has styles of its own, and no scripts.
_LOGO_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


@dataclass(frozen=True)
class Branding:
    """The looks of an inbox; `color` is `#rrggbb`, and empty for the default."""

    name: str = "Holdfast"
    color: str = ""
    logo: bytes = b""
    logo_type: str = ""

    @property
    def logo_path(self) -> str:
        """Return the address of the logo; empty without one."""
        return LOGO_PATH if self.logo else ""

    def response(self, path: str) -> Response | None:
        """Return the file at an address, if it is one of the organization's."""
        if path == STYLE_PATH and self.color:
            rules = f":root {{ --brand: {self.color}; --on-brand: {ink_on(self.color)}; }}\n"
            return Response(rules, media_type="text/css")
        if path == LOGO_PATH and self.logo:
            policy = {"Content-Security-Policy": _LOGO_POLICY}
            return Response(self.logo, media_type=self.logo_type, headers=policy)
        return None


HOLDFAST: Final = Branding()


def ink_on(color: str) -> str:
    """Return the color of text on a color: white or black, with a contrast of 4.5 or more."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#ffffff" if 1.05 / (luminance + 0.05) >= 4.5 else "#000000"
