#!/bin/bash
# A bare Debian of its own, for the package: made by debootstrap, without systemd, in a file system and namespaces that are gone
# with its first process.
#
# debian.sh SCRATCH PACKAGE...: does SCRATCH/shared/steps there, as root. SCRATCH/shared is its /mnt, with first.deb, which the steps may
# install, and these packages of Debian as well. In the environment: SUITE, the release, else that of this machine; SHOWN, directories of
# this machine, one a line, which are there under the same names and cannot be written.
set -eu
scratch=$1
shift
root=$scratch/disk/root

outside() {
    mkdir "$scratch/disk"
    mount -t tmpfs -o mode=755 disk "$scratch/disk"
    own=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $own" | head -n 1)
    debootstrap --variant=minbase "${SUITE:-$own}" "$root" "${mirror:-http://deb.debian.org/debian}"
    mount --bind "$scratch/shared" "$root/mnt"
    mount -t proc proc "$root/proc"
    devices
    show
    # The namespaces have no network: what is installed there later is fetched before.
    fetch install /mnt/first.deb
    fetch install "$@"
    umount "$root/proc"
    unshare --mount --pid --net --ipc --uts --fork --kill-child "$0" "$scratch" inside
}

show() {
    while IFS= read -r directory; do
        [ -n "$directory" ] || continue
        mkdir -p "$root$directory"
        mount --bind "$directory" "$root$directory"
        mount -o remount,bind,ro "$root$directory"
    done <<<"${SHOWN:-}"
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
    # Where programs log that are told to.
    ln -s /proc/self/fd/2 "$root/dev/stderr"
}

inside() {
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755 run "$root/run"
    mkdir "$root/run/lock"
    ip link set lo up
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive bash /mnt/steps
}

if [ "$1" = inside ]; then inside; else outside "$@"; fi
