#!/bin/sh
# Gets what mounts file systems for the tests of runs on them, where that is possible; else these are skipped.
set -u
command -v s3fs >/dev/null && command -v sshfs >/dev/null && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
apt-get install -y -qq --no-install-recommends s3fs sshfs fuse3 >/dev/null 2>&1 \
    || echo "no s3fs or sshfs: the tests of mounted file systems are skipped" >&2
exit 0
