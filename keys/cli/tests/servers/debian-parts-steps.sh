# One package with all parts, as it was once, is upgraded to a package for each part, on a bare Debian with systemd. Beside this file in
# /mnt: the packages in first.
. /mnt/words
# Files of these packages that are there.
files() { dpkg-query -L "$@" | sort -u | while read -r file; do [ ! -f "$file" ] || echo "$file"; done; }
# There is no /sbin/init here: without this Debian lets packages reload nothing.
printf '#!/bin/sh\nexit 0\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
all="sidecore sidecore-sockets sidecore-farm sidecore-lab"

said "the one package, put together from the four"
one=/tmp/one
for package in /mnt/first/*.deb; do dpkg-deb --extract "$package" $one; done
dpkg-deb --control /mnt/first/sidecore_*.deb $one/DEBIAN
rm -rf $one/DEBIAN/md5sums $one/usr/share/doc/sidecore-*
sed -i -e 's/^Version: .*/Version: 0.1.0-1/' -e '/^Recommends: /d' $one/DEBIAN/control
echo /etc/sidecore/sockets.toml >>$one/DEBIAN/conffiles
cat $one/usr/lib/sysusers.d/sidecore-sockets.conf >>$one/usr/lib/sysusers.d/sidecore.conf
rm $one/usr/lib/sysusers.d/sidecore-sockets.conf
dpkg-deb -Zgzip -z1 -b $one /tmp/one.deb
get install /tmp/one.deb

said "its service of sockets runs, starts with the machine, and has a configuration of the operator's"
echo '# Changed.' >>/etc/sidecore/sockets.toml
mkdir /etc/systemd/system/sidecore-sockets.service.d
printf '[Service]\nNice=-1\n' >/etc/systemd/system/sidecore-sockets.service.d/ours.conf
systemctl daemon-reload
systemctl enable --now sidecore-sockets
pid() { systemctl show --property MainPID --value "$1"; }
keys=$(pid sidecore) sockets=$(pid sidecore-sockets) user=$(id -u sidecore-sockets)
sidecore keys generate kept --kind p-256
files sidecore >/mnt/before
cp /etc/sidecore/sockets.toml /mnt/sockets.toml

said "upgraded to four"
get install /mnt/first/*.deb
[ "$(dpkg-query -W -f '${Version} ' $all)" = "0.1.0-2 0.1.0-2 0.1.0-2 0.1.0-2 " ] || fail "$(dpkg-query -W $all)"
files $all >/mnt/after
comm -23 /mnt/before /mnt/after >/mnt/lost
[ ! -s /mnt/lost ] || fail "files are gone: $(cat /mnt/lost)"
cmp /etc/sidecore/sockets.toml /mnt/sockets.toml || fail "the configuration is another"
[ "$(dpkg-query -S /etc/sidecore/sockets.toml)" = "sidecore-sockets: /etc/sidecore/sockets.toml" ] || fail "$(dpkg-query -S sockets.toml)"
ls /etc/sidecore/sockets.toml.dpkg-* 2>/dev/null && fail "a second configuration"
for service in sidecore sidecore-sockets; do
    systemctl is-active $service || fail "$(systemctl status $service)"
    systemctl is-enabled $service
done
# While a machine starts, as this one, an upgrade does not wait for the reload that it asks for.
for _ in $(seq 600); do [ "$(pid sidecore)" = "$keys" ] || break; sleep 0.1; done
[ "$(pid sidecore)" != "$keys" ] || fail "the old service of keys still runs"
[ "$(pid sidecore-sockets)" != "$sockets" ] || fail "the old service of sockets still runs"
[ "$(id -u sidecore-sockets)" = "$user" ] || fail "its user is another"
[ "$(systemctl show --property Nice --value sidecore-sockets)" = -1 ] || fail "the operator's drop-in is lost"
sidecore keys list | grep kept

said "the command names the package of what is not there"
get remove sidecore-lab sidecore-farm
for line in "bench sidecore-lab" "farm sidecore-farm"; do
    set -- $line
    ! sidecore $1 2>/mnt/said || fail "it is there"
    grep -q "sidecore $1 is not installed here: apt-get install $2," /mnt/said || fail "$(cat /mnt/said)"
done

said "removed: the service of sockets ends, its configuration stays, and the service of keys goes on"
held=$(pid sidecore-sockets) keys=$(pid sidecore)
get remove sidecore-sockets
[ ! -e "/proc/$held" ] || fail "it still runs"
[ "$(pid sidecore)" = "$keys" ] || fail "the service of keys is another"
cmp /etc/sidecore/sockets.toml /mnt/sockets.toml

said "a purge of keys leaves the other package its configuration, with which it comes back"
sidecore keys delete kept
get purge sidecore
cmp /etc/sidecore/sockets.toml /mnt/sockets.toml
get install /mnt/first/sidecore_*.deb /mnt/first/sidecore-sockets_*.deb
cmp /etc/sidecore/sockets.toml /mnt/sockets.toml

said "back to the one package: the configuration stays, and what is left of the others is removed"
get --allow-downgrades install /tmp/one.deb
[ "$(dpkg-query -W -f '${Version}' sidecore)" = 0.1.0-1 ] || fail "$(dpkg-query -W sidecore)"
cmp /etc/sidecore/sockets.toml /mnt/sockets.toml

said "the package of keys alone is upgraded: it says what to install, and the configuration is there for it"
get install /mnt/first/sidecore_*.deb >/mnt/said 2>&1
cat /mnt/said
grep -q "apt-get install sidecore-sockets sidecore-farm sidecore-lab" /mnt/said || fail "it does not say what is missing"
get install /mnt/first/sidecore-sockets_*.deb
cmp /etc/sidecore/sockets.toml /mnt/sockets.toml

said "purged"
get purge sidecore sidecore-sockets
[ ! -e /etc/sidecore ] || fail "left: $(ls /etc/sidecore)"
said "all is done"
