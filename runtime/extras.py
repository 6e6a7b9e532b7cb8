"""The optional dependencies of the package, and the extra that installs each."""

from typing import Final

# The top-level module of each package that only an extra installs.
_EXTRAS: Final = {
    "starlette": "web",
    "uvicorn": "web",
    "jinja2": "web",
    "python_multipart": "web",
    "aioboto3": "s3",
}


def missing_extra(error: ModuleNotFoundError) -> tuple[str, str] | None:
    """Return what is missing and what to do, or None if no extra installs the module."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        return None
    wrong = f"this needs the package {module}, which is not installed"
    return wrong, f'pip install "holdfast[{_EXTRAS[module]}]"'
