"""`crdtcat COMMAND`: what was typed is done and shown; what went wrong is one message and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from crdtcat import __version__
from crdtcat.cli import changing, looking, tending
from crdtcat.cli.command import CATALOG, STORAGE_OPTIONS, Command, Given
from crdtcat.errors import (
    AlreadyExists,
    CommitError,
    CommitUnknown,
    CrdtcatError,
    DataError,
    Expired,
    NotFound,
    StoreError,
    UserError,
)

COMMANDS: Final = {one.name: one for one in (*looking.COMMANDS, *changing.COMMANDS, *tending.COMMANDS)}
STATUS: Final[tuple[tuple[type[CrdtcatError], int], ...]] = (
    (UserError, 2),
    (NotFound, 3),
    (AlreadyExists, 3),
    (Expired, 3),
    (CommitUnknown, 5),
    (CommitError, 4),
    (DataError, tending.PROBLEMS),
    (StoreError, 7),
)
"""Exit statuses by what a script would do next: the first that fits. 1 is anything else."""
INTERRUPTED: Final = 130
_ABOUT: Final = {
    looking.GROUP: "Look at tables",
    changing.GROUP: "Change them",
    tending.GROUP: "Tend them",
}
_END: Final = f"""\
The catalog is --catalog URL, or {CATALOG}: a folder, s3://bucket/lake, any fsspec URL.
Its storage options are --storage-option NAME=VALUE, or {STORAGE_OPTIONS} as a JSON
object, which other users of the machine cannot see.

crdtcat COMMAND --help says what a command takes.
"""


def main(typed: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = make_parser()
    arguments = parser.parse_args(typed)
    if arguments.command is None:
        parser.print_help()
        return 2
    try:
        answer = COMMANDS[arguments.command].run(Given(arguments))
        if isinstance(answer, int):
            return answer
        if answer is not None:
            print(answer)
        sys.stdout.flush()
    except CrdtcatError as error:
        print(f"crdtcat: {error}", file=sys.stderr)
        return next((status for kind, status in STATUS if isinstance(error, kind)), 1)
    except KeyboardInterrupt:
        print("crdtcat: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `crdtcat read ... | head`: whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Every command and what it takes."""
    parser = argparse.ArgumentParser(
        prog="crdtcat",
        usage="crdtcat COMMAND [--catalog URL] ...",
        description=_overview(),
        epilog=_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"crdtcat {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    for command in COMMANDS.values():
        one = commands.add_parser(command.name, description=command.about, parents=[_common()])
        for argument in command.arguments:
            one.add_argument(*argument.names, **argument.settings)
    return parser


def _common() -> argparse.ArgumentParser:
    """What every command takes."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-c", "--catalog", metavar="URL", help=f"where the catalog is; {CATALOG}")
    common.add_argument(
        "--storage-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=f"one of {STORAGE_OPTIONS}",
    )
    common.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    return common


def _overview() -> str:
    """All commands with a line each, by group."""
    lines = ["A table catalog on object storage.", ""]
    for group, title in _ABOUT.items():
        of_group: list[Command] = [one for one in COMMANDS.values() if one.group == group]
        lines += [f"{title}:", *(f"  {one.name:<15}{one.about}" for one in of_group), ""]
    return "\n".join(lines).rstrip()
