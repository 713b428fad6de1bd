#!/bin/bash
# A bare Debian of its own, for the package: made by debootstrap, in a file system and namespaces that are gone with its first
# process. That is the steps' shell; with BOOT in the environment it is systemd, which is installed before.
#
# debian.sh SCRATCH PACKAGE...: does SCRATCH/shared/steps there, as root. SCRATCH/shared is its /mnt, with packages in first, which the
# steps may install, and these packages of Debian as well. In the environment: SUITE, the release, else that of this machine; SHOWN, directories of
# this machine, one a line, which are there under the same names and cannot be written.
set -eu
scratch=$1
shift
root=$scratch/disk/root
. "$(dirname "$0")/boot.sh"

outside() {
    mkdir "$scratch/disk"
    mount -t tmpfs -o mode=755 disk "$scratch/disk"
    own=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $own" | head -n 1)
    # Not in memory, as far as systemd can see: it seals no passphrase by a key that is there.
    mkdir "$root" "$scratch"/disk/{nothing,new,work}
    mount -t overlay debian -o "lowerdir=$scratch/disk/nothing,upperdir=$scratch/disk/new,workdir=$scratch/disk/work" "$root"
    debootstrap --variant=minbase "${SUITE:-$own}" "$root" "${mirror:-http://deb.debian.org/debian}"
    mount --bind "$scratch/shared" "$root/mnt"
    mount -t proc proc "$root/proc"
    devices
    show
    # The namespaces have no network: what is installed there later is fetched before.
    fetch install $(cd "$scratch/shared" && printf '/mnt/%s\n' first/*.deb)
    fetch install "$@"
    [ -z "${BOOT:-}" ] || chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install systemd
    umount -R "$root/dev" "$root/proc"
    [ -z "${BOOT:-}" ] || own_group
    unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child "$0" "$scratch" inside
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

inside() {
    ip link set lo up
    devices
    if [ -n "${BOOT:-}" ]; then
        kernel_files
        boot /root
    fi
    # Where programs log that are told to.
    ln -s /proc/self/fd/2 "$root/dev/stderr"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755 run "$root/run"
    mkdir "$root/run/lock"
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive bash /mnt/steps
}

if [ "${1:-}" = inside ]; then inside; else outside "$@"; fi
