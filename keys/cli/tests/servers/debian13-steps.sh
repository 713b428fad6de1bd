# Debian 13 with its OpenSSL 3.5. Beside this file in /mnt: packages in first; `packages`, those of the programs; `restart`, lines of
# docs/install.md; `tables`, the command that compares docs/programs.md with what the programs do.
. /mnt/words
configuration=/etc/ssl/openssl-sidecore.cnf
as_www="setpriv --reuid=www-data --regid=www-data --clear-groups"

said "installed, and started by hand"
get install /mnt/first/sidecore_*.deb $(cat /mnt/packages)
openssl version
[[ $(openssl version) == "OpenSSL 3.5."* ]] || fail "another OpenSSL"
service sidecore start
be_patient

said "a P-256 key is made in the service, and signs its certificate through OpenSSL; an RSA key is imported"
sidecore keys generate p-256 --kind p-256 --gid www-data
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout /etc/ssl/private/rsa.pem -out /etc/ssl/certs/rsa.pem 2>/dev/null
sidecore keys import rsa /etc/ssl/private/rsa.pem --gid www-data
rm /etc/ssl/private/rsa.pem
for key in p-256 rsa; do
    sidecore keys pem $key --output /etc/nginx/$key.sidecore.pem --mode 0640 --owner root:www-data
done
OPENSSL_CONF=$configuration $as_www openssl req -x509 -key /etc/nginx/p-256.sidecore.pem -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost >/etc/ssl/certs/p-256.pem
for key in p-256 rsa; do
    sidecore keys test /etc/nginx/$key.sidecore.pem --certificate /etc/ssl/certs/$key.pem --as www-data
done

# Shakes hands with `openssl s_server`, which has these files, in the group that both propose first.
s_server() {
    OPENSSL_CONF=$configuration $as_www openssl s_server -quiet -www -accept 127.0.0.1:4433 "$@" 2>/mnt/server &
    server=$!
    until (: </dev/tcp/127.0.0.1/4433) 2>/dev/null; do
        kill -0 $server || fail "s_server ended: $(cat /mnt/server)"
        sleep 0.05
    done
    openssl s_client -brief -connect 127.0.0.1:4433 -verify_hostname localhost -CAfile /etc/ssl/certs/$key.pem -verify_return_error \
        </dev/null >/mnt/said 2>&1 || fail "s_server with $*: $(cat /mnt/said /mnt/server)"
    kill $server
    wait $server || true
    grep -e '^Protocol version' -e '^Verification' -e '^Negotiated' /mnt/said
    grep -qx 'Protocol version: TLSv1.3' /mnt/said || fail "$(cat /mnt/said)"
    grep -qx 'Verification: OK' /mnt/said || fail "$(cat /mnt/said)"
    grep -qx 'Negotiated TLS1.3 group: X25519MLKEM768' /mnt/said || fail "$(cat /mnt/said)"
}
for key in p-256 rsa; do
    said "openssl s_server with $key, in files of their own and in one, the certificate first"
    s_server -cert /etc/ssl/certs/$key.pem -key /etc/nginx/$key.sidecore.pem
    cat /etc/ssl/certs/$key.pem /etc/nginx/$key.sidecore.pem >/mnt/both
    chmod 644 /mnt/both
    s_server -cert /mnt/both -key /mnt/both
done

for key in p-256 rsa; do
    said "nginx with $key: the service restarts while handshakes go on"
    certificate=/etc/ssl/certs/$key.pem
    nginx_with_key /etc/nginx/$key.sidecore.pem
    . /mnt/restart
    handshake || fail "$(cat /mnt/said)"
    grep -q 'X25519MLKEM768' /mnt/said || fail "another group: $(cat /mnt/said)"
    handshakes_go_on
    more
    service sidecore restart
    more
    handshakes_end
    said "$(wc -l </mnt/made) handshakes, none lost"
done

said "the service is away: nginx's log says so"
sed -i '/^restart_wait_ms = 120000/d' $configuration
. /mnt/restart
service sidecore stop
! handshake || fail "a handshake without the service"
grep -o 'no sidecore service answers at its socket' /var/log/nginx/error.log || fail "nothing in nginx's log"
service sidecore start
handshake || fail "after the service came back: $(cat /mnt/said)"
service nginx stop
service sidecore stop

said "the tables of docs/programs.md"
. /mnt/tables
said "all is done"
