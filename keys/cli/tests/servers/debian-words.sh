# What the steps on a bare Debian have in common: they are told first.
set -eu
said() { printf -- '--- %s\n' "$*"; }
fail() { said "FAILED: $*"; cat /var/log/sidecore.log /var/log/nginx/error.log 2>/dev/null || true; exit 1; }
# All was fetched before: there is no network.
get() { apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@" </dev/null; }
certificate=/etc/ssl/certs/www.pem
handshake() {
    openssl s_client -connect 127.0.0.1:443 -servername localhost -CAfile $certificate -verify_return_error </dev/null >/mnt/said 2>&1
}
# nginx on port 443 with the key in that file.
nginx_with_key() {
    cat >/etc/nginx/conf.d/www.conf <<NGINX
server {
    listen 443 ssl;
    server_name localhost;
    ssl_certificate $certificate;
    ssl_certificate_key $1;
}
NGINX
}
# How slow this machine is decides nothing here.
be_patient() { printf 'restart_wait_ms = 120000\ntimeout_ms = 120000\n' >>/etc/ssl/openssl-sidecore.cnf; }

# Handshakes go on from here to `handshakes_end`, which fails if one was lost. `more` waits for some.
handshakes_go_on() {
    rm -f /mnt/enough
    : >/mnt/made
    : >/mnt/lost
    (
        while [ ! -e /mnt/enough ]; do
            if handshake; then echo >>/mnt/made; else cat /mnt/said >>/mnt/lost; fi
        done
    ) &
    load=$!
}
more() {
    from=$(wc -l </mnt/made)
    until [ "$(wc -l </mnt/made)" -ge $((from + 5)) ] || [ -s /mnt/lost ]; do sleep 0.05; done
}
handshakes_end() {
    touch /mnt/enough
    wait $load
    [ ! -s /mnt/lost ] || fail "handshakes were lost: $(cat /mnt/lost)"
}
