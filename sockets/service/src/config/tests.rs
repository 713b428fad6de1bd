//! Tests of files with the section, right and wrong.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Config {
    Config::parse(text).unwrap()
}

fn error(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

#[test]
fn a_misspelled_section_is_named_with_the_nearest() {
    assert_eq!(error("[sockts]"), "line 1: unknown key \"sockts\"; did you mean \"sockets\"?");
    assert_eq!(error("sockets = 7"), "line 1: sockets: write a section, not 7");
}

#[test]
fn a_service_of_sockets_has_a_socket_and_limits_of_its_own() {
    let config = read("[sockets]");
    assert_eq!((config.sockets, config.socket), (SocketsConfig::default(), PathBuf::from(DEFAULT_SOCKET)));
    let config = read("socket = 'own'\n[sockets]\nring_kib = 64\nmax_users = 3");
    assert_eq!(config.socket, PathBuf::from("own"));
    assert_eq!(config.sockets, SocketsConfig { ring_kib: 64, max_users: 3, ..SocketsConfig::default() });
    assert!(error("[sockets]\nring_kib = 2").contains("sockets.ring_kib = 2: use 4 to 1024"));
    assert!(error("[sockets]\nring_kib = 33").contains("use a power of two"));
    assert!(error("[sockets]\nmax_socket = 33").contains("did you mean \"max_sockets\"?"));
}

#[test]
fn programs_have_weights_by_name() {
    let sockets = read("[sockets.weights]\nmosquitto = 4\n'redis-server *:6379' = 100").sockets;
    let weights = ["mosquitto", "redis-server *:6379", "another"].map(|name| sockets.weight_of(name));
    assert_eq!(weights, [4, 100, 1]);
    for (wrong, hint) in [
        ("mosquitto = 0", "sockets.weights.\"mosquitto\" = 0: use 1 to 100"),
        ("mosquitto = 101", "use 1 to 100"),
        ("mosquitto = -1", "line 2"),
        ("mosquitto = 'most'", "line 2"),
        ("'' = 2", "names of 1 to 31 bytes"),
        ("a-name-that-is-cut-where-it-is-told = 2", "names of 1 to 31 bytes"),
    ] {
        let error = error(&format!("[sockets.weights]\n{wrong}"));
        assert!(error.contains(hint), "{error}");
    }
    assert!(error("[sockets]\nweight = 3").contains("did you mean \"weights\"?"));
}

#[test]
fn sockets_and_what_has_keys_are_two_services() {
    for other in ["keys", "device", "client"] {
        for written in [format!("[sockets]\n[{other}]"), format!("[[{other}]]\n[sockets]")] {
            let error = error(&written);
            assert!(error.contains("write two files") && error.contains(&format!(": {other} and")), "{error}");
        }
    }
}

#[test]
fn what_has_no_effect_on_sockets_is_refused_beside_them() {
    let idle = [
        ("[limits]\nlanes = 7", "limits"),
        ("[limits]", "limits"),
        ("[notify]\nservice = 'park'\nclient = 'park'", "notify.client"),
        ("[notify]\nto_device = 'park'", "notify.to_device"),
    ];
    for (other, name) in idle {
        let error = error(&format!("[sockets]\n{other}"));
        assert!(error.contains(&format!(": {name} and [sockets] in one file")), "{error}");
        assert!(error.contains("these apply: socket, socket_mode"), "{error}");
    }
    for (other, name) in [("balance = 'sed'", "balance"), ("order = 'fifo'", "order"), ("counters = '/c'", "counters")]
    {
        assert!(error(&format!("{other}\n[sockets]")).contains(&format!("{name} and [sockets] in one file")));
    }
    let all = "socket = 's'\nsocket_mode = '0666'\n[sidecores]\ncpus = [0]\n[notify]\nservice = 'park'\n[sandbox]\n\
               seccomp = true\n[sockets]";
    assert!(Config::parse(all).is_ok());
    assert!(error("sidecores.owned = true\n[sockets]").contains("sidecores.owned = true without sidecores.cpus"));
    assert!(error("sandbox.user = 'root'\n[sockets]").contains("sandbox.user"));
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_an_error_in_one_line(text in "(\\[|\\]|=|\\.|'|\"|\n| |[a-z_]{1,12}|[0-9]{1,4}){0,40}") {
        if let Err(error) = Config::parse(&text) {
            prop_assert!(!error.to_string().is_empty() && !error.to_string().contains('\n'));
        }
    }
}
