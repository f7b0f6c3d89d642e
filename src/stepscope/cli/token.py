"""``stepscope token``: the token of a user's servers, and a new one in its place."""

from __future__ import annotations

import argparse

from stepscope.cli.output import Output, put
from stepscope.errors import ServeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the token that your servers on this machine accept, as in http://127.0.0.1:6006/?token=…, and "
        "where it is kept."
    )
    parser.add_argument(
        "--new",
        action="store_true",
        help="replace it; running servers take the new one within seconds, and all links, printed addresses "
        "and cookies stop working",
    )
    parser.add_argument("--json", action="store_true", help="print token and path as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the token.

    Raises:
        ServeError: It cannot be kept.
        UsageError: Another user could know the one that is there.
    """
    from stepscope.serve.user_token import kept_token, replace_token, token_path

    path = token_path()
    try:
        token = replace_token() if arguments.new else kept_token() or replace_token()
    except ServeError:
        raise
    except OSError as error:
        raise ServeError(
            f"the token cannot be kept in {path}: {error.strerror}",
            hint="set XDG_STATE_HOME to a directory of yours",
        ) from None
    ended = "; older links, addresses and cookies no longer work" if arguments.new else ""
    notes = () if arguments.json else (f"kept in {path}{ended}",)
    put(Output(f"{token}\n", {"token": token, "path": str(path)}, notes), as_json=arguments.json)
    return 0
