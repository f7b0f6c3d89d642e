import subprocess
import sys

import pytest

import stepscope as ss


@pytest.mark.slow
def test_first_requests_that_come_while_the_store_is_being_imported_are_answered(tmp_path):
    with ss.Run(tmp_path / "runs" / "a") as run:
        run.scalar("loss", 1.0, 0)
    code = """
import sys, threading, urllib.request
from stepscope.serve import Server
paths = ["ranks?run=a", "records?run=a", "findings?run=a", "captures?run=a", "views", "profiles"]
with Server(sys.argv[1], port=0, cache=False, no_token=True) as server:
    def ask(path):
        try:
            urllib.request.urlopen(server.url + "api/v1/" + path, timeout=50).read()
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                print(error.code, path)
    threads = [threading.Thread(target=ask, args=(path,)) for path in paths * 3]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    for _ in range(3):
        command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "runs")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.stdout, "Error" in done.stderr) == ("", False), done.stderr
