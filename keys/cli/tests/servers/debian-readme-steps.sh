# The README's lines on a bare Debian with systemd, pasted: `move` and `back` in /mnt, beside packages in first, of which
# keys need one.
. /mnt/words
pasted() {
    bash -e "/mnt/$1" >"/mnt/$1.said" 2>&1 || fail "$1: $(cat "/mnt/$1.said")"
    cat "/mnt/$1.said"
}
# As the installer of Debian makes it.
[ -e /etc/hosts ] || echo '127.0.0.1 localhost' >/etc/hosts

said "installed: systemd starts the service"
[ -d /run/systemd/system ] || fail "no systemd"
get install /mnt/first/sidecore_*.deb
systemctl is-active sidecore

said "nginx with its key in a file"
get install nginx-light openssl
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout /etc/ssl/private/www.pem -out $certificate 2>/dev/null
nginx_with_key /etc/ssl/private/www.pem
systemctl restart nginx
handshake || fail "with the key in the file: $(cat /mnt/said)"

said "moved: nginx serves without the file"
pasted move
mv /etc/ssl/private/www.pem /mnt
systemctl restart nginx
handshake || fail "with the key in the service: $(cat /mnt/said)"

said "a server that keeps its key is found out"
mv /mnt/www.pem /etc/ssl/private
nginx_with_key /etc/ssl/private/www.pem
systemctl restart nginx
! sidecore keys test /etc/nginx/www.sidecore.pem --as www-data --server localhost:443 >/mnt/said || fail "$(cat /mnt/said)"
grep 'FAILED server: localhost:443 shook hands by a key of its own' /mnt/said || fail "$(cat /mnt/said)"
nginx_with_key /etc/nginx/www.sidecore.pem

said "and back: the service has no key, and nginx needs none"
pasted back
systemctl stop sidecore
handshake || fail "with the key in the file again: $(cat /mnt/said)"
systemctl start sidecore
[ "$(sidecore keys list)" = "no keys" ] || fail "$(sidecore keys list)"
[ ! -e /etc/nginx/www.sidecore.pem ] || fail "the file is there"

said "an upgrade stops at a question about a configuration; removed then: the service ends all the same"
get purge nginx-light
be_patient
dpkg-deb -R /mnt/first/sidecore_*.deb /tmp/second
sed -i 's/^Version: .*/Version: 0.1.0-3/' /tmp/second/DEBIAN/control
echo '# of the new version' >>/tmp/second/etc/ssl/openssl-sidecore.cnf
dpkg-deb -Zgzip -z1 -b /tmp/second /tmp/second.deb
held=$(systemctl show --property MainPID --value sidecore)
! get install /tmp/second.deb || fail "it was not asked about the configuration"
[ -e "/proc/$held" ] || fail "the service ended before it was removed"
get remove sidecore
[ ! -e "/proc/$held" ] || fail "the service still runs, with its keys"
said "all is done"
