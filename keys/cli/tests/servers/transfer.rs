//! Backup, restoration and transfers of keys as docs/keys.md has them, word for word.

use crate::guides::{Followed, Step, follow_steps, page, steps};

fn with_keys(more: Vec<Step>) -> Followed {
    let made = "sidecore keys generate www --kind p-256 --gid www-data\nsidecore keys generate api --kind ed25519\n\
        sidecore keys pem www --output /srv/www.key\n";
    let mut all = steps(&page("install.md"));
    all.push(run(made));
    all.extend(more);
    follow_steps(&all)
}

fn run(commands: &str) -> Step {
    Step::Do(commands.to_owned())
}

#[test]
fn keys_are_backed_up_and_restored_on_another_machine_word_for_word() {
    let [backup, restore] = &steps(&page("keys.md#back-up-and-restore"))[..] else { panic!("two scripts") };
    // Another machine has neither the keys nor the secret of systemd's credentials.
    let another = "systemctl stop sidecore\n\
        rm -r /var/lib/sidecore /etc/sidecore/passphrase.cred /var/lib/systemd/credential.secret\n";
    let mut all = vec![backup.clone(), run(another)];
    all.extend(steps(&page("install.md")));
    let used = "sidecore keys pem www | cmp - /srv/www.key\n\
        sidecore keys test /srv/www.key --as www-data\nsystemctl restart sidecore\nsidecore keys list --json\necho it works\n";
    all.extend([restore.clone(), run(used)]);
    let followed = with_keys(all);
    let said = &followed.said;
    assert!(said.lines().any(|line| line == "it works") && said.contains("ok     signature: one was made"), "{said}");
}

#[test]
fn keys_go_to_another_machine_word_for_word() {
    let [here, there, once, timer] = &steps(&page("keys.md#to-another-machine"))[..] else { panic!("four scripts") };
    // The other machine is a service with another socket, and `ssh` a program that reaches it.
    let other = "mkdir /etc/other\n(umask 077 && echo open sesame >/etc/other/passphrase)\n\
        printf 'socket = \"/run/other/socket\"\\n[keys]\\ndirectory = \"/var/lib/other\"\\n' >/etc/other/sidecore.toml\n\
        systemd-run --quiet --unit=other sidecore serve --config /etc/other/sidecore.toml --passphrase-file /etc/other/passphrase\n\
        printf '#!/bin/sh\\nshift\\nSIDECORE_SOCKET=/run/other/socket exec \"$@\"\\n' >/usr/local/bin/ssh\n\
        chmod 755 /usr/local/bin/ssh\nuntil ssh other sidecore keys list; do sleep 0.1; done\n";
    let between = "sidecore keys list --json >/srv/here\nif grep www /srv/here; then exit 1; fi\n";
    let compared = "ssh other sidecore keys pem www | cmp - /srv/www.key\n\
        ssh other sidecore keys list --json | grep -v '\"www\"' | cmp - /srv/here\necho it works\n";
    let Step::Do(there) = there else { panic!("commands") };
    let there = there
        .replace("/etc/sidecore/sidecore.toml", "/etc/other/sidecore.toml")
        .replace("restart sidecore", "restart other")
        + "\nuntil ssh other sidecore keys list; do sleep 0.1; done\n";
    let followed = with_keys(vec![
        run(other),
        here.clone(),
        run(&there),
        once.clone(),
        run(between),
        timer.clone(),
        run(compared),
    ]);
    let said = &followed.said;
    for line in ["www: sent (new)", "www: moved (same)", "api: sent (new)", "it works"] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
}
