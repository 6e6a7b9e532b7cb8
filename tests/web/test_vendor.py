"""What others wrote, and the pages load, is what was published."""

import hashlib

from holdfast.web.pages import HERE, STATIC

VENDOR = STATIC / "vendor"
DIGESTS = {
    "htmx-2.0.11.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "htmx-ext-sse-2.2.4.min.js": "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136",
    "idiomorph-ext-0.8.0.min.js": (
        "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e"
    ),
}


def test_they_are_as_they_were_published() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.js")
    }
    assert found == DIGESTS


def test_each_of_them_is_loaded_and_named_with_where_it_is_from() -> None:
    base = (HERE / "templates" / "shared" / "base.html").read_text(encoding="utf-8")
    told = (VENDOR / "README.md").read_text(encoding="utf-8")
    for name in DIGESTS:
        assert f"/static/vendor/{name}" in base
        assert f"`{name}`" in told
