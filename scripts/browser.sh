#!/bin/sh
# Makes sure that a Chromium is there for the tests that open the page; installs Debian's where that is possible.
# The shell without windows opens pages in half the time; where only the whole browser is to be had, that does.
set -eu
command -v chromium-headless-shell >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq chromium-headless-shell >/dev/null && exit 0
fi
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y -qq chromium >/dev/null
else
    echo "no Chromium found: the tests that open the page need one" >&2
    echo "hint: sudo apt-get install chromium" >&2
    exit 1
fi
