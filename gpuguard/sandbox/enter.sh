#!/bin/sh
# Runs as pid 1 of a new host, still on the machine's root: builds the host's root and moves into it.
# usage: enter.sh FOLDER BASE STORE NAME ADDRESS/PREFIX
set -eu
scripts=${0%/*} folder=$1 base=$2 store=$3 name=$4 address=$5
root=$folder/root

# The old /proc is still mounted, so this is the pid as the machine sees it.
read -r machine_boot </proc/sys/kernel/random/boot_id
read -r stat </proc/self/stat
set -- $stat
pid=$1
shift 21
echo "$pid $1 $machine_boot" >"$folder/init"

mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/disk,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755,size=1m tmpfs "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/run/sshd" "$root/run/lock"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for node in null zero full random urandom tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir -p "$root/srv/gpuguard"
mount --bind "$store" "$root/srv/gpuguard"

# Every host boots with an id of its own, though all share one kernel.
read -r boot </proc/sys/kernel/random/uuid
echo "$boot" >"$root/run/boot_id"
echo "$boot" >"$folder/boot_id"
mount --bind "$root/run/boot_id" "$root/proc/sys/kernel/random/boot_id"

# A plain file stands in for the kernel log: a reader finds one record a line and polls at the end.
read -r uptime _ </proc/uptime
echo "5,0,${uptime%.*}000000,-;gpuguard sandbox: $name booted, id $boot" >"$root/dev/kmsg"

echo "$name" >/proc/sys/kernel/hostname
[ ! -e /proc/sys/net/ipv6/conf/all/disable_ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
cp "$scripts/init.sh" "$root/run/init.sh"

cd "$root"
pivot_root . mnt
exec /bin/sh /run/init.sh "$folder" "$address" </dev/null >>/var/log/console.log 2>&1
