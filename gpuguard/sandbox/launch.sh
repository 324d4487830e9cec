#!/bin/bash
# Starts one host: notes itself down, lets go of everything inherited, becomes the host's keeper.
# usage: launch.sh FOLDER BASE STORE NAME ADDRESS/PREFIX
set -eu
folder=$1
exec </dev/null >>"$folder/boot.log" 2>&1

# Noted before anything is made: whoever cleans up after a crash finds this process by pid and start time.
read -r boot </proc/sys/kernel/random/boot_id
read -r stat </proc/self/stat
fields=($stat)
echo "${fields[0]} ${fields[21]} $boot" >"$folder/keeper"

# A descriptor from outside the host's mount namespace makes a later dump in it fail, and the
# sandbox's lock must not outlive the command that holds it.
for link in /proc/self/fd/*; do
    fd=${link##*/}
    [ "$fd" -le 2 ] || eval "exec $fd>&-"
done

exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root \
    unshare -m -p -f -u -i -n --kill-child --propagation private \
    /bin/sh "${0%/*}/enter.sh" "$@"
