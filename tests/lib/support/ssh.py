"""An SSH server on this machine that gives out a folder by SFTP, made of asyncssh.

``python ssh.py PORT FOLDER DENIED`` takes the user ``ada`` with the password of :data:`PASSWORD`, unless
there is a file ``DENIED``.
"""

import asyncio
import sys
from pathlib import Path

PASSWORD = "a-secret-that-nobody-may-see"


async def serve(port: int, folder: str, denied: Path) -> None:
    """Serve for ever."""
    import asyncssh

    class Server(asyncssh.SSHServer):
        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == ("ada", PASSWORD) and not denied.exists()

    await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=Server,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=folder.encode()),
        allow_scp=False,
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
