set +v
fail() { echo "FAILED: $*"; systemctl status sidecore --no-pager -l || true; journalctl -u sidecore --no-pager -n 40 || true; exit 1; }
main() { systemctl show -P MainPID sidecore; }
sidecore keys generate www --kind p-256 --uid www-data
sidecore keys pem www --output /tmp/www.pem --mode 644
first=$(main)
rm -f /tmp/enough /tmp/lost
echo 0 >/tmp/made
(
    while [ ! -e /tmp/enough ]; do
        if OPENSSL_CONF=/etc/ssl/openssl-sidecore.cnf openssl dgst -sha256 -sign /tmp/www.pem -out /dev/null /etc/hostname 2>/tmp/why; then
            echo $(($(cat /tmp/made) + 1)) >/tmp/made.new && mv /tmp/made.new /tmp/made
        else
            cat /tmp/why >>/tmp/lost
        fi
    done
) &
signs=$!
more() { from=$(cat /tmp/made); until [ "$(cat /tmp/made)" -ge $((from + 5)) ] || [ -s /tmp/lost ]; do sleep 0.1; done; }
for round in 1 2 3; do
    before=$(main)
    more
    systemctl reload sidecore || fail "reload $round"
    [ "$(main)" != "$before" ] || fail "the main process is the former one"
    [ ! -e "/proc/$before" ] || fail "the former service is still there"
    systemctl --quiet is-active sidecore || fail "not active"
    more
done
# A configuration that is wrong: the present service goes on.
before=$(main)
sed -i '1i wrong = 1' /etc/sidecore/sidecore.toml
! systemctl reload sidecore || fail "a wrong configuration was loaded"
sed -i 1d /etc/sidecore/sidecore.toml
[ "$(main)" = "$before" ] || fail "another main process"
more
# The manager holds the socket still, and the unit ends with its main process.
systemctl restart sidecore || fail "restart"
more
touch /tmp/enough
wait $signs
[ ! -s /tmp/lost ] || fail "signatures were lost: $(cat /tmp/lost)"
last=$(main)
systemctl stop sidecore
[ ! -e "/proc/$last" ] || fail "a service is left"
systemctl start sidecore
echo "reloaded three times, no signature was lost"
