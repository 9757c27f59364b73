#!/bin/sh
# Makes version-before.tar.gz: the directories of a cell that BINARY, of the version before this
# one (xtask/version-before.txt), has left when it was killed. tests/version_before.rs reads them.
#   make-version-before.sh BINARY OUT.tar.gz
set -eu
binary=$1
out=$(realpath "$2")
work=$(mktemp -d)
cd "$work"
settings='[new_cell]
chunk_size = 1048576
block_size = 4096
heartbeat_ms = 100
silent_ms = 500
lease_ms = 1500
dead_ms = 600000'
printf '%s\n' "$settings" > settings.toml
at=127.0.0.1:7931
pids=
start() {
    "$binary" "$@" > /dev/null 2>> log &
    pids="$pids $!"
}
start master --data master --listen $at --config settings.toml --checkpoint-every-records 20
for number in 1 2 3; do
    start chunkserver --data "chunkserver-$number" --master $at --listen "127.0.0.1:793$((number + 1))" \
        --rack "/rack-$number"
done
ask() { "$binary" "$@" --cell $at; }
until ask status --check > /dev/null 2>&1 && [ "$(ask servers --json | grep -c '"live"')" -ge 3 ]; do
    sleep 0.2
done
seq 1 20000 > numbers
printf 'one\ntwo\n' > lines
ask mkdir /made
ask put numbers /made/numbers
ask put --synced lines /made/synced
ask append /made/log lines
ask append /made/log lines
ask policy / --keep-deleted forever
ask mkdir /gone
ask put lines /gone/file
ask rm -r /gone
ask policy /made --replication 2
for number in $(seq 1 30); do ask mkdir "/made/d$number"; done
ask append /made/log lines
# It has been one of three, and is alone again.
others=127.0.0.1:7935,127.0.0.1:7936
for number in 5 6; do
    start master --data "master-$number" --listen "127.0.0.1:793$number" --peers $others
done
sleep 1
ask masters add $others
ask masters remove $others
ask mkdir /made/last
sleep 3
kill -9 $pids 2> /dev/null || true
tar --sparse -czf "$out" master chunkserver-1 chunkserver-2 chunkserver-3
cd /
rm -rf "$work"
