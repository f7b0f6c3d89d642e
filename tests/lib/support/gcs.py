"""A Google Cloud Storage on this machine: ``python gcs.py PORT`` serves one bucket, ``bucket``, from memory.

The emulator reads an upload in two parts as if it were a mail: content that ends in a line feed loses it, and
a lone carriage return changes others. Here the parts are split by their boundary, as RFC 2046 has it.
"""

import json
import sys
from email.message import Message
from typing import Any

from gcp_storage_emulator import server


def main(port: int) -> None:
    """Serve until the process ends."""
    of_emulator = server._read_data

    def read_data(handler: Any, query: Any) -> Any:
        kind = handler.headers.get("Content-Type") or ""
        if not kind.startswith("multipart/related"):
            return of_emulator(handler, query)
        return upload(server._decode_raw_data(server._read_raw_data(handler), handler), kind)

    server._read_data = read_data
    server.create_server("127.0.0.1", port, in_memory=True, default_bucket="bucket").run()


def upload(data: bytes, kind: str) -> dict[str, Any]:
    """Return an upload's facts and its content, byte for byte.

    Args:
        data: The body of the request.
        kind: Its type, which names the boundary.
    """
    message = Message()
    message["Content-Type"] = kind
    boundary = b"--" + str(message.get_param("boundary")).encode()
    newline = b"\r\n" if data.startswith(boundary + b"\r\n") else b"\n"
    _, facts, content, _ = (newline + data).split(newline + boundary)
    head, _, body = content.partition(2 * newline)
    return {
        "meta": json.loads(facts.partition(2 * newline)[2]),
        "content": body,
        "content-type": head.partition(b":")[2].strip().decode(),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
