#!/bin/sh
# pid 1 of a host, on its own root: brings the network up, keeps sshd running, reaps orphans.
# usage: init.sh FOLDER ADDRESS/PREFIX   (FOLDER only marks the process for whoever cleans up)
set -eu
address=$2
umount -l /mnt
# Jobs get a slave copy of these mounts, so that what is mounted later reaches them too.
mount --make-rshared /

ip link set lo up
until [ -e /sys/class/net/eth0 ]; do sleep 0.02; done
ip address add "$address" dev eth0
ip link set eth0 up

# In the foreground: while the shell waits for sshd it also reaps whatever was left to pid 1.
while :; do
    /usr/sbin/sshd -D -e || sleep 0.2
done
