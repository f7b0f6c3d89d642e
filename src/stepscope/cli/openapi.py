"""``stepscope openapi``: print the description of the HTTP interface."""

from __future__ import annotations

import argparse
import json
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="accepted as everywhere; the output is always JSON"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the document that a server answers at ``api/v1/openapi.json``."""
    from stepscope.serve.openapi import document

    json.dump(document(), sys.stdout, indent=1)
    print()
