# The life of the packages on a bare Debian. Beside this file in /mnt: `move` and `restart`, the lines of the README and of
# docs/install.md; packages in first and second.
. /mnt/words
ours() { find / -xdev \( -path /proc -o -path /mnt -o -path /dev -o -path '/var/cache/*' -o -path '/var/lib/dpkg/*' \) -prune -o -path '*sidecore*' -print | sort; }
version() { dpkg-query -W -f '${Version}' sidecore; }
pid() { cat /run/sidecore.pid; }

said "a bare Debian: no systemd, nothing of the package"
[ ! -d /run/systemd/system ] || fail "systemd runs"
[ -z "$(ours)" ] || fail "$(ours)"

said "installed, and started by hand: without an init system Debian lets packages start nothing unless policy-rc.d permits it"
get install /mnt/first/*.deb
[ "$(version)" = 0.1.0-2 ] || fail "$(version)"
[ ! -e /run/sidecore.pid ] || fail "it runs already"
service sidecore start
printf '#!/bin/sh\nexit 0\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d

said "it runs as its own user, and holds no key"
grep -q "^Uid:	$(id -u sidecore)	" "/proc/$(pid)/status" || fail "its user: $(grep Uid "/proc/$(pid)/status")"
sidecore keys list
[ "$(stat -c %a /etc/sidecore/passphrase)" = 600 ] || fail "who may read the passphrase"
service sidecore status

said "nginx with its key in a file"
get install nginx-light openssl
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout /etc/ssl/private/www.pem -out $certificate 2>/dev/null
nginx_with_key /etc/ssl/private/www.pem
service nginx restart
handshake || fail "with the key in the file: $(cat /mnt/said)"

said "moved by the lines of the README"
# What the operator changed an upgrade keeps.
be_patient
nginx_with_key /etc/nginx/www.sidecore.pem
set -v
. /mnt/move
rm /etc/ssl/private/www.pem
. /mnt/restart
set +v
handshake || fail "with the key in the service: $(cat /mnt/said)"
sidecore top --once | grep -A 3 SIGN
grep -l ossl-modules/sidecore.so /proc/[0-9]*/maps >/mnt/mapped || fail "nobody has the provider"

said "upgraded while handshakes go on"
handshakes_go_on
more
before=$(pid)
get install /mnt/second/*.deb
[ "$(version)" = 0.1.0-3 ] || fail "$(version)"
more
handshakes_end
[ "$(pid)" != "$before" ] || fail "the old service still runs"
[ ! -e "/proc/$before" ] || fail "the old service is still there"
grep -q 'the former service hands over and ends' /var/log/sidecore.log || fail "the old service ended before the new one could serve"
grep -q 'restart_wait_ms = 120000' /etc/ssl/openssl-sidecore.cnf || fail "the upgrade changed a configuration"
grep -q 'sidecore.so (deleted)' $(cat /mnt/mapped) || fail "nginx does not have the old provider"
said "$(wc -l </mnt/made) handshakes, none lost"

said "a configuration that is wrong: the restart fails, and the service goes on"
before=$(pid)
sed -i '1i wrong = 1' /etc/sidecore/sidecore.toml
! service sidecore restart || fail "a wrong configuration was loaded"
sed -i 1d /etc/sidecore/sidecore.toml
[ "$(pid)" = "$before" ] && [ -e "/proc/$before" ] || fail "the service is another, or gone"
handshake || fail "after a restart that failed: $(cat /mnt/said)"

said "removed: the service ends, configurations and keys stay"
held=$(pid)
get remove sidecore
[ ! -e "/proc/$held" ] || fail "the service still runs"
[ ! -e /usr/bin/sidecore ] || fail "the command is there"
ls /var/lib/sidecore/keys/www@*.key /etc/sidecore/sidecore.toml /etc/sidecore/passphrase /etc/ssl/openssl-sidecore.cnf

said "installed again: the key is there"
get install /mnt/second/sidecore_*.deb
. /mnt/restart
handshake || fail "after the package came back: $(cat /mnt/said)"

said "an upgrade stops at a question about a configuration; removed then: the service ends all the same"
dpkg-deb -R /mnt/second/sidecore_*.deb /tmp/third
sed -i 's/^Version: .*/Version: 0.1.0-4/' /tmp/third/DEBIAN/control
echo '# of the new version' >>/tmp/third/etc/ssl/openssl-sidecore.cnf
dpkg-deb -Zgzip -z1 -b /tmp/third /tmp/third.deb
held=$(pid)
! get install /tmp/third.deb || fail "it was not asked about the configuration"
[ "$(dpkg-query -W -f '${db:Status-Status}' sidecore)" = unpacked ] || fail "$(dpkg-query -s sidecore)"
[ -e "/proc/$held" ] || fail "the service ended before it was removed"
get remove sidecore
[ ! -e "/proc/$held" ] || fail "the service still runs, with its keys"
rm -r /tmp/third /tmp/third.deb

said "purged: only keys and their passphrase stay, and it says so"
get purge sidecore sidecore-sockets sidecore-farm sidecore-lab >/mnt/purged 2>&1
cat /mnt/purged
line=$(sed -n 's/^sidecore: to delete them: //p' /mnt/purged)
ours | grep -v -e '^/etc/nginx/www.sidecore.pem$' -e '^/etc/sidecore$' -e '^/etc/sidecore/passphrase$' -e '^/var/lib/sidecore' >/mnt/left || true
[ ! -s /mnt/left ] || fail "left: $(cat /mnt/left)"
ls /var/lib/sidecore/keys/www@*.key /etc/sidecore/passphrase
$line
rm /etc/nginx/www.sidecore.pem
[ -z "$(ours)" ] || fail "left: $(ours)"
said "all is done"
