#!/usr/bin/env bash
# Install what the tests need beside Python, with apt-get where that is possible.
# Without arguments: everything that is missing. With arguments: these Debian packages.
set -euo pipefail

missing=("$@")
want() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
if [ $# -eq 0 ]; then
    want javac openjdk-17-jdk-headless   # the real ZooKeeper and Kafka, and the Java clients
    want mvn maven                       # which brings their jars
    want go golang-go                    # the Go clients
    want npm npm                         # the JavaScript client
    want kcat kcat                       # a client for the command line
    want strace strace                   # faults at the n-th write or fsync
    want ip iproute2                     # network namespaces
fi
[ ${#missing[@]} -gt 0 ] || exit 0

command="apt-get install --yes --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing: ${missing[*]} (Debian's names). Install them with your package manager." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "missing: ${missing[*]}. Run: sudo apt-get update && sudo $command" >&2
    exit 1
fi
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
$command --quiet=2 >/dev/null
