//! Units and containers of one user, each with the key of its group: the guide, and attacks from the other unit.

use crate::guides::{Step, follow_steps, page, steps};
use crate::programs::{is_root, program, run};
use crate::service::{Service, signatures};
use sidecore_counters::{Snapshot, counters_beside};
use std::os::unix::fs::PermissionsExt;

/// Each line of the output is `NAME: signs` or `NAME: refused`. `as_unit` starts a process of a unit.
const ATTACKS: &str = r#"
as_unit="setpriv --reuid=www-data --bounding-set=-all --inh-caps=-all --no-new-privs"
sign=/tmp/sign
cat >$sign <<'END'
#!/bin/sh
export OPENSSL_CONF=/etc/ssl/openssl-sidecore.cnf
exec openssl dgst -sha256 -sign /etc/ssl/shop.key -out /dev/null /etc/hostname
END
chmod 755 $sign
says() { name=$1; shift; if "$@" 2>/tmp/why; then echo "$name: signs"; else echo "$name: refused"; cat /tmp/why; fi; }
shop=$(getent group key-shop | cut -d: -f3) mail=$(getent group key-mail | cut -d: -f3)

says supplementary $as_unit --regid=www-data --groups=$shop $sign
says primary $as_unit --regid=$shop --clear-groups $sign
says other-unit $as_unit --regid=www-data --groups=$mail $sign
says no-group $as_unit --regid=www-data --clear-groups $sign
says joins $as_unit --regid=$mail --clear-groups setpriv --groups=$shop $sign

sed 's/^User=.*/DynamicUser=yes/; s/^Group=/SupplementaryGroups=/' /etc/systemd/system/shop.service >/etc/systemd/system/dynamic.service
sed 's/key-shop/key-mail/' /etc/systemd/system/dynamic.service >/etc/systemd/system/dynamic-mail.service
says dynamic systemctl start dynamic
says dynamic-other systemctl start dynamic-mail

# Without a user namespace root in a container is root.
says root-in-container unshare --mount --pid --fork $sign

# What another process of the same user sees of a process of the unit.
$as_unit --regid=$shop --clear-groups sleep 1000 & primary=$!
$as_unit --regid=www-data --groups=$shop sleep 1000 & supplementary=$!
until grep -q sleep /proc/$primary/comm && grep -q sleep /proc/$supplementary/comm; do sleep 0.1; done
reads() { $as_unit --regid=www-data --groups=$mail cat /proc/$1/environ >/dev/null 2>&1 && echo seen || echo unseen; }
echo "trace of primary: $(reads $primary)"
echo "trace of supplementary: $(reads $supplementary)"
kill $primary $supplementary
"#;

/// Outside of that machine, whose root is not the kernel's: there is no user namespace in it.
const CONTAINERS: &str = r#"
as_unit="setpriv --reuid=65534 --bounding-set=-all --inh-caps=-all --no-new-privs --regid=65534"
sign=$DIRECTORY/sign shop=64123 mail=64124
$SIDECORE keys generate shop --kind p-256 --gid 64123 --gid 100007 --socket $DIRECTORY/service/socket
$SIDECORE keys pem shop --output $DIRECTORY/shop.key --mode 644 --socket $DIRECTORY/service/socket
cat >$sign <<'END'
#!/bin/sh
exec openssl dgst -sha256 -sign $DIRECTORY/shop.key -out /dev/null /etc/hostname
END
chmod 755 $sign
says() { name=$1; shift; if "$@" 2>$DIRECTORY/why; then echo "$name: signs"; else echo "$name: refused"; cat $DIRECTORY/why; fi; }

# A container: its own processes, mounts and users. CONTAINER FIRST-ID COMMAND: ids from 0 on are FIRST-ID and so on outside.
container() {
    first=$1; shift
    unshare --user --keep-caps --mount --pid --fork sh -c 'until [ -s $DIRECTORY/mapped ]; do sleep 0.1; done; exec "$0" "$@"' "$@" &
    until [ "$(readlink /proc/$!/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do sleep 0.1; done
    echo "0 $first 65536" >/proc/$!/uid_map
    echo "0 $first 65536" >/proc/$!/gid_map
    echo yes >$DIRECTORY/mapped
    wait $! && code=0 || code=$?
    rm $DIRECTORY/mapped
    return $code
}
inside() { container 100000 setpriv --reuid="$1" --regid="$1" --groups="$2" --inh-caps=-all --ambient-caps=-all \
    env SIDECORE_SERVICE_USER="$3" $sign; }
says mapped inside 33 7 65534
says mapped-other inside 33 8 65534
says mapped-root inside 0 8 65534
says mapped-same-number inside 33 $shop 65534
says untrusted-service inside 33 7 sidecore
# Rootless with keep-groups: the group has no number inside.
says kept $as_unit --groups=$shop unshare --user --map-root-user env SIDECORE_SERVICE_USER=65534 $sign
says kept-none $as_unit --groups=$mail unshare --user --map-root-user env SIDECORE_SERVICE_USER=65534 $sign
"#;

const UNITS: [&str; 10] = [
    "supplementary: signs",
    "primary: signs",
    "other-unit: refused",
    "no-group: refused",
    "joins: refused",
    "dynamic: signs",
    "dynamic-other: refused",
    "root-in-container: signs",
    "trace of primary: unseen",
    "trace of supplementary: seen",
];
const IN_CONTAINERS: [&str; 7] = [
    "mapped: signs",
    "mapped-other: refused",
    "mapped-root: refused",
    "mapped-same-number: refused",
    "untrusted-service: refused",
    "kept: signs",
    "kept-none: refused",
];

fn results(said: &str) -> Vec<&str> {
    let is_result =
        |line: &&str| ["signs", "refused", "seen", "unseen"].iter().any(|end| line.ends_with(&format!(": {end}")));
    said.lines().filter(is_result).collect()
}

fn signed(expected: &[&str]) -> u64 {
    expected.iter().filter(|line| line.ends_with("signs")).count() as u64
}

#[test]
fn the_guide_for_units_works_word_for_word_and_the_other_unit_gets_no_signature() {
    let mut all: Vec<Step> = ["install.md", "guide/units.md"].iter().flat_map(|name| steps(&page(name))).collect();
    all.push(Step::Do(ATTACKS.to_owned()));
    let followed = follow_steps(&all);
    let said = &followed.said;
    assert!(said.lines().any(|line| line == "mail is refused"), "{said}");
    assert!(said.contains("refused: user 33 may not use key \"shop\""), "{said}");
    assert_eq!(results(said), UNITS, "{said}");
    assert_eq!(signatures(followed.counted(), "shop"), 1 + signed(&UNITS), "one of the unit\n{said}");
}

#[test]
fn a_container_has_the_keys_of_its_groups_as_they_are_outside() {
    assert!(is_root(), "the guides are for root: run these tests as root, where namespaces can be made");
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = Service::start(directory.path());
    let mut script = program("bash");
    script.args(["-c", CONTAINERS]).env("DIRECTORY", directory.path()).env("SIDECORE", env!("CARGO_BIN_EXE_sidecore"));
    let done = run(script.env("OPENSSL_CONF", directory.path().join("openssl.cnf")));
    assert_eq!(results(&done.stdout), IN_CONTAINERS, "{}\n{}", done.stdout, done.stderr);
    assert!(
        done.stdout.matches("may not use key \"shop\"").count() == 4,
        "each refused by the service\n{}",
        done.stdout
    );
    let counted = Snapshot::read(&counters_beside(&service.socket())).unwrap();
    assert_eq!(signatures(&counted, "shop"), signed(&IN_CONTAINERS), "{}", done.stdout);
}
