"""Opens the example's shop, once, in a folder that belongs to the worker's user then."""

import os
from pathlib import Path

from examples.support_desk.shop import DATABASE, open_shop

FOLDER = Path("/var/lib/shop")
USER = 10001

if not (FOLDER / DATABASE).exists():
    open_shop(FOLDER)
for path in (FOLDER, *FOLDER.rglob("*")):
    os.chown(path, USER, USER)
