#!/bin/bash
# A bare Debian of its own, for the package: made by debootstrap, without systemd, in a file system and namespaces that are gone
# with its first process.
#
# debian.sh SCRATCH: does SCRATCH/shared/steps there, as root. SCRATCH/shared is its /mnt, with the packages, first.deb and second.deb.
set -eu
scratch=$1
root=$scratch/disk/root

outside() {
    mkdir "$scratch/disk"
    mount -t tmpfs -o mode=755 disk "$scratch/disk"
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
    debootstrap --variant=minbase "$suite" "$root" "${mirror:-http://deb.debian.org/debian}"
    mount --bind "$scratch/shared" "$root/mnt"
    mount -t proc proc "$root/proc"
    devices
    # The namespaces have no network: what is installed there later is fetched before.
    fetch install /mnt/first.deb
    fetch install nginx-light openssl
    umount "$root/proc"
    unshare --mount --pid --net --ipc --uts --fork --kill-child "$0" "$scratch" inside
}

# Fetches what this would install. Nothing is installed.
fetch() {
    chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends --download-only "$@"
}

devices() {
    mount -t tmpfs -o mode=755 dev "$root/dev"
    for device in null zero full random urandom tty; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    mkdir "$root/dev/shm"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    ln -s /proc/self/fd "$root/dev/fd"
}

inside() {
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755 run "$root/run"
    mkdir "$root/run/lock"
    ip link set lo up
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive bash /mnt/steps
}

"${2:-outside}"
