"""What a person sees on a terminal: its rows, after all that moved the cursor."""

import re

_PIECES = re.compile(r"(\x1b\[[0-?]*[ -/]*[@-~]|[\r\n\x08\x07])")
_COUNT = re.compile(r"\d+")


def rows(written: str) -> tuple[list[str], int]:
    """Return the rows of an endless terminal, and the row of the cursor."""
    seen, row, column = [""], 0, 0
    for piece in _PIECES.split(written):
        line, number = seen[row].ljust(column), _COUNT.search(piece)
        count = int(number[0]) if number else 1
        match f"\x1b{piece[-1]}" if piece.startswith("\x1b[") else piece:
            case "\r":
                column = 0
            case "\n":
                row += 1
                seen += [""] * (row == len(seen))
            case "\x08":
                column -= 1
            case "\x1bA":
                row = max(row - count, 0)
            case "\x1bC":
                column += count
            case "\x1bK":
                seen[row] = "" if piece == "\x1b[2K" else line[:column]
            case _ if piece.isprintable():
                seen[row] = line[:column] + piece + line[column + len(piece) :]
                column += len(piece)
    return [line.rstrip() if number != row else line for number, line in enumerate(seen)], row
