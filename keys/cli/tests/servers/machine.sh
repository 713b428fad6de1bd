#!/bin/bash
# A machine of its own for one guide: the files of this one, copied on write, with its own systemd, network and users'
# processes. Nothing that is done there is seen outside, and it is gone when its first process ends.
#
# machine.sh SCRATCH PROJECT BUILD: runs SCRATCH/shared/steps as a service of that machine. PROJECT is its
# /usr/src/sidecore, with the files of BUILD in target/release; SCRATCH/shared is its /mnt, where its transcript, journal and the
# service's counters are left.
set -eu
scratch=$1 project=$2 build=$3 root=$1/disk/root
. "$(dirname "$0")/boot.sh"

outside() {
    own_group
    # With all processes gone that were started there.
    unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child "$0" "$scratch" "$project" "$build" inside
}

inside() {
    mkdir "$scratch/disk"
    mount -t tmpfs -o mode=755 disk "$scratch/disk"
    copy_on_write / "$root" machine
    copy_on_write "$project" "$root/usr/src/sidecore" project
    mkdir -p "$root/usr/src/sidecore/target/release"
    mount --bind "$build" "$root/usr/src/sidecore/target/release"
    mount -o remount,bind,ro "$root/usr/src/sidecore/target/release"
    mount --bind "$scratch/shared" "$root/mnt"
    kernel_files
    devices
    ip link set lo up
    boot /usr/src/sidecore
}

# copy_on_write FROM TO NAME
copy_on_write() {
    mkdir -p "$2" "$scratch/disk/$3.new" "$scratch/disk/$3.work"
    mount -t overlay "$3" -o "lowerdir=$1,upperdir=$scratch/disk/$3.new,workdir=$scratch/disk/$3.work" "$2"
}

"${4:-outside}"
