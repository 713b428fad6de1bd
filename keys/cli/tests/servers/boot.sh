# A machine that is namespaces and a file system of its own, with systemd as its first process: it is gone with that process.
# For scripts that set `scratch`, its directory, and `root`, its file system.

# This process and those that it starts are a group of their own, below which systemd makes its groups.
own_group() {
    mkdir "$scratch/cgroup"
    mount -t cgroup2 cgroup2 "$scratch/cgroup"
    group=$scratch/cgroup/sidecore-guide-$$
    mkdir "$group"
    trap leave EXIT
    echo $$ >"$group/cgroup.procs"
}

leave() {
    echo $$ >"$scratch/cgroup/cgroup.procs"
    find "$group" -depth -type d -exec rmdir {} +
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
}

devices() {
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

# boot DIRECTORY: systemd with /mnt/steps as a service in that directory, whose end is the machine's. What looks after hardware is left out.
boot() {
    : >"$root/etc/fstab"
    for unit in systemd-{udevd,udev-trigger,sysctl,modules-load,remount-fs,random-seed,binfmt}.service \
        systemd-udevd-{control,kernel}.socket {dev-hugepages,sys-kernel-debug,sys-kernel-tracing}.mount; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    # Else only root may log in before the start has ended, which is later than the steps.
    mkdir -p "$root/etc/tmpfiles.d"
    ln -sf /dev/null "$root/etc/tmpfiles.d/systemd-nologin.conf"
    cat >"$root/etc/systemd/system/guide.service" <<UNIT
[Service]
Type=oneshot
WorkingDirectory=$1
Environment=GOCACHE=$1/target/go-cache HOME=/tmp PAGER=cat TERM=dumb DEBIAN_FRONTEND=noninteractive
StandardOutput=append:/mnt/transcript
StandardError=append:/mnt/transcript
ExecStart=/bin/bash /mnt/steps
ExecStopPost=/bin/bash -c 'journalctl --quiet --no-pager >/mnt/journal; cp /run/sidecore/sidecore.sock.counters /mnt/counters 2>/dev/null; \\
    systemctl exit \$EXIT_STATUS'
UNIT
    # As at the start of a machine: what systemd mounts for a service is seen by it.
    mount --make-rshared "$root"
    cd "$root"
    exec chroot . /usr/bin/env -i container=other /lib/systemd/systemd --unit=guide.service --show-status=no
}
