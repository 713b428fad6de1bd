# The life of the package on a bare Debian. Beside this file in /mnt: `move` and `restart`, the lines of the README and of
# docs/install.md; first.deb and second.deb.
set -eu
said() { printf -- '--- %s\n' "$*"; }
fail() { said "FAILED: $*"; cat /var/log/sidecore.log /var/log/nginx/error.log 2>/dev/null || true; exit 1; }
# All was fetched before: there is no network.
get() { apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@" </dev/null; }
certificate=/etc/ssl/certs/www.pem
handshake() {
    openssl s_client -connect 127.0.0.1:443 -servername localhost -CAfile $certificate -verify_return_error </dev/null >/mnt/said 2>&1
}
ours() { find / -xdev \( -path /proc -o -path /mnt -o -path /dev -o -path '/var/cache/*' -o -path '/var/lib/dpkg/*' \) -prune -o -path '*sidecore*' -print | sort; }
version() { dpkg-query -W -f '${Version}' sidecore; }
pid() { cat /run/sidecore.pid; }

said "a bare Debian: no systemd, nothing of the package"
[ ! -d /run/systemd/system ] || fail "systemd runs"
[ -z "$(ours)" ] || fail "$(ours)"

said "installed, and started by hand: without an init system Debian lets packages start nothing unless policy-rc.d permits it"
get install /mnt/first.deb
[ "$(version)" = 0.1.0-1 ] || fail "$(version)"
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
cat >/etc/nginx/conf.d/www.conf <<NGINX
server {
    listen 443 ssl;
    server_name localhost;
    ssl_certificate $certificate;
    ssl_certificate_key /etc/ssl/private/www.pem;
}
NGINX
service nginx restart
handshake || fail "with the key in the file: $(cat /mnt/said)"

said "moved by the lines of the README"
# How slow this machine is decides nothing here. What the operator changed an upgrade keeps.
printf 'restart_wait_ms = 120000\ntimeout_ms = 120000\n' >>/etc/ssl/openssl-sidecore.cnf
sed -i s,/etc/ssl/private/www.pem,/etc/nginx/www.sidecore.pem, /etc/nginx/conf.d/www.conf
set -v
. /mnt/move
rm /etc/ssl/private/www.pem
. /mnt/restart
set +v
handshake || fail "with the key in the service: $(cat /mnt/said)"
sidecore top --once | grep -A 3 SIGN
grep -l ossl-modules/sidecore.so /proc/[0-9]*/maps >/mnt/mapped || fail "nobody has the provider"

said "upgraded while handshakes go on"
: >/mnt/made
: >/mnt/lost
(
    while [ ! -e /mnt/enough ]; do
        if handshake; then echo >>/mnt/made; else cat /mnt/said >>/mnt/lost; fi
    done
) &
load=$!
more() {
    from=$(wc -l </mnt/made)
    until [ "$(wc -l </mnt/made)" -ge $((from + 5)) ] || [ -s /mnt/lost ]; do sleep 0.05; done
}
more
before=$(pid)
get install /mnt/second.deb
[ "$(version)" = 0.1.0-2 ] || fail "$(version)"
more
touch /mnt/enough
wait $load
[ ! -s /mnt/lost ] || fail "handshakes were lost: $(cat /mnt/lost)"
[ "$(pid)" != "$before" ] || fail "the old service still runs"
[ ! -e "/proc/$before" ] || fail "the old service is still there"
grep -q 'restart_wait_ms = 120000' /etc/ssl/openssl-sidecore.cnf || fail "the upgrade changed a configuration"
grep -q 'sidecore.so (deleted)' $(cat /mnt/mapped) || fail "nginx does not have the old provider"
said "$(wc -l </mnt/made) handshakes, none lost"

said "removed: the service ends, configurations and keys stay"
held=$(pid)
get remove sidecore
[ ! -e "/proc/$held" ] || fail "the service still runs"
[ ! -e /usr/bin/sidecore ] || fail "the command is there"
ls /var/lib/sidecore/keys/www@*.key /etc/sidecore/sidecore.toml /etc/sidecore/passphrase /etc/ssl/openssl-sidecore.cnf

said "installed again: the key is there"
get install /mnt/second.deb
. /mnt/restart
handshake || fail "after the package came back: $(cat /mnt/said)"

said "purged: only keys and their passphrase stay, and it says so"
get purge sidecore >/mnt/purged 2>&1
cat /mnt/purged
line=$(sed -n 's/^sidecore: to delete them: //p' /mnt/purged)
ours | grep -v -e '^/etc/nginx/www.sidecore.pem$' -e '^/etc/sidecore$' -e '^/etc/sidecore/passphrase$' -e '^/var/lib/sidecore' >/mnt/left || true
[ ! -s /mnt/left ] || fail "left: $(cat /mnt/left)"
ls /var/lib/sidecore/keys/www@*.key /etc/sidecore/passphrase
$line
rm /etc/nginx/www.sidecore.pem
[ -z "$(ours)" ] || fail "left: $(ours)"
said "all is done"
