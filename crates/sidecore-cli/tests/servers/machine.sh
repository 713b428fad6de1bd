#!/bin/bash
# A machine of its own for one guide: the files of this one, copied on write, with its own systemd, network and users'
# processes. Nothing that is done there is seen outside, and it is gone when its first process ends.
#
# machine.sh SCRATCH PROJECT BUILD: runs SCRATCH/shared/steps as a service of that machine. PROJECT is its
# /usr/src/sidecore, with the files of BUILD in target/release; SCRATCH/shared is its /mnt, where its transcript, journal and the
# service's counters are left.
set -eu
scratch=$1 project=$2 build=$3

outside() {
    mkdir "$scratch/cgroup"
    mount -t cgroup2 cgroup2 "$scratch/cgroup"
    group=$scratch/cgroup/sidecore-guide-$$
    mkdir "$group"
    trap leave EXIT
    echo $$ >"$group/cgroup.procs"
    # With all processes gone that were started there.
    unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child "$0" "$scratch" "$project" "$build" inside
}

leave() {
    echo $$ >"$scratch/cgroup/cgroup.procs"
    find "$group" -depth -type d -exec rmdir {} +
}

inside() {
    mkdir "$scratch/disk"
    mount -t tmpfs -o mode=755 disk "$scratch/disk"
    root=$scratch/disk/root
    copy_on_write / "$root" machine
    copy_on_write "$project" "$root/usr/src/sidecore" project
    mkdir -p "$root/usr/src/sidecore/target/release"
    mount --bind "$build" "$root/usr/src/sidecore/target/release"
    mount -o remount,bind,ro "$root/usr/src/sidecore/target/release"
    mount --bind "$scratch/shared" "$root/mnt"
    kernel_files
    ip link set lo up
    units
    # As at the start of a machine: what systemd mounts for a service is seen by it.
    mount --make-rshared "$root"
    cd "$root"
    exec chroot . /usr/bin/env -i container=other /lib/systemd/systemd --unit=guide.service --show-status=no
}

# copy_on_write FROM TO NAME
copy_on_write() {
    mkdir -p "$2" "$scratch/disk/$3.new" "$scratch/disk/$3.work"
    mount -t overlay "$3" -o "lowerdir=$1,upperdir=$scratch/disk/$3.new,workdir=$scratch/disk/$3.work" "$2"
}

# Settings of the kernel can be read there and not changed.
kernel_files() {
    mount -t proc proc "$root/proc"
    mount --bind "$root/proc/sys" "$root/proc/sys"
    mount -o remount,bind,ro "$root/proc/sys"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 run "$root/run"
    mount -t tmpfs tmp "$root/tmp"
    mount -t tmpfs -o mode=755 dev "$root/dev"
    for device in null zero full random urandom tty; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    mkdir "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
}

# The guide's steps are a service; what looks after hardware is left out.
units() {
    : >"$root/etc/fstab"
    for unit in systemd-{udevd,udev-trigger,sysctl,modules-load,remount-fs,random-seed,binfmt}.service \
        systemd-udevd-{control,kernel}.socket {dev-hugepages,sys-kernel-debug,sys-kernel-tracing}.mount; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    cat >"$root/etc/systemd/system/guide.service" <<UNIT
[Service]
Type=oneshot
WorkingDirectory=/usr/src/sidecore
Environment=HOME=/tmp PAGER=cat TERM=dumb
StandardOutput=append:/mnt/transcript
StandardError=append:/mnt/transcript
ExecStart=/bin/bash /mnt/steps
ExecStopPost=/bin/bash -c 'journalctl --quiet --no-pager >/mnt/journal; cp /run/sidecore/sidecore.sock.counters /mnt/counters; \\
    systemctl exit \$EXIT_STATUS'
UNIT
}

"${4:-outside}"
