//! Tests of files and settings, right and wrong.

use super::*;
use proptest::prelude::*;

fn error(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

#[test]
fn an_empty_file_is_the_default() {
    let config = Config::parse("").unwrap();
    assert_eq!((config.balance, config.order), (Balance::Eft, Order::Fifo));
    assert_eq!(config.devices, [DeviceConfig::inline("inline")]);
    assert_eq!(config.counters_path(), PathBuf::from(format!("{DEFAULT_SOCKET}.counters")));
}

#[test]
fn sidecores_and_devices_with_threads_are_those_that_wait() {
    let device = |name, rest| format!("[[device]]\nname = '{name}'\nkind = {rest}\n");
    let text = "sidecores = { cpus = [1], owned = true }\n".to_owned()
        + &device("a", "'inline'")
        + &device("b", "'worker'\ncpu = 2\nowned = true")
        + &device("c", "'batch'\ncpu = 3")
        + &device("d", "'emulated'");
    let waiters = Config::parse(&text).unwrap().waiters(&[0, 1, 2, 3]);
    assert_eq!(waiters.sidecores, [ThreadCore::new(Some(1), true)]);
    assert_eq!(waiters.workers, [ThreadCore::new(Some(2), true), ThreadCore::new(Some(3), false)]);
    assert!(waiters.clients_may_spin);
    let waiters = Config::parse("").unwrap().waiters(&[0]);
    assert_eq!((waiters.sidecores, waiters.clients_may_spin), (vec![ThreadCore::default()], false));
}

#[test]
fn every_key_can_be_written() {
    let config = Config::parse(
        r#"
        socket = "a.sock"
        counters = "c"
        sample_every = 1
        balance = "priced"
        order = "fifo"
        [sidecores]
        cpus = [0, 1]
        owned = true
        [notify]
        service = "park"
        client = "coalesce(8,50us)"
        to_device = "timer(100us)"
        from_device = "spin"
        [[device]]
        name = "w"
        kind = "worker"
        cpu = 1
        [[device]]
        name = "e"
        kind = "emulated"
        fixed_ns = 350
        per_byte_ns = 0.589
        ops = ["aes-256-gcm", "3des-cbc"]
        [limits]
        lanes_per_client = 2
        [keys]
        directory = "/var/lib/sidecore/keys"
        passphrase_file = "/etc/sidecore/passphrase"
        changes_file = "/var/lib/sidecore-changes/number"
        accept_missing = ["www"]
        [[client]]
        uid = 1000
        weight = 3
        in_flight = 7
        [sandbox]
        user = "sidecore"
        seccomp = true
        landlock = false
        "#,
    )
    .unwrap();
    assert_eq!(config.notify.client, Notify::Coalesce { count: 8, delay: 50_000 });
    assert_eq!(config.devices[1].classes().iter().count(), 4);
    let expected = ClientLimits { weight: 3, lanes: 2, in_flight: 7, arena_bytes: 256 << 20 };
    assert_eq!(config.limits_of(1000), expected);
    assert_eq!(config.limits_of(0).weight, 1);
    let sandbox = &config.sandbox;
    assert_eq!((sandbox.seccomp, sandbox.landlock, sandbox.lock_memory), (Some(true), Some(false), None));
    assert_eq!(sandbox.user.as_deref(), Some("sidecore"));
}

#[test]
fn an_unknown_key_names_the_line_and_the_nearest() {
    assert_eq!(error("\nsocke = 'x'"), "line 2: unknown key \"socke\"; did you mean \"socket\"?");
    assert!(error("[limits]\nlane = 3").contains("did you mean \"lanes\"?"));
    assert!(error("[sandbox]\nlandlok = true").contains("did you mean \"landlock\"?"));
    assert!(error("[[device]]\nname='x'\nkind='inline'\ndept=3").contains("did you mean \"depth\"?"));
}

#[test]
fn removed_policies_are_refused_with_their_successors() {
    let predict = "`predict` was removed: write \"break-even\"";
    assert!(error("[notify]\nservice = 'predict'").contains(&format!("notify.service: {predict}")));
    assert!(error("[[device]]\nname='x'\nkind='inline'\n[notify]\nclient = 'predict'").contains(predict));
    assert!(Setting::parse("notify=predict").unwrap_err().to_string().contains(&format!("notify=predict: {predict}")));
    assert!(Setting::parse("notify.client=predict").unwrap_err().to_string().contains(predict));
    let shortest = "`shortest` was removed: write \"fifo\"";
    assert!(error("order = 'shortest'").contains(&format!("order: {shortest}")));
    assert!(Setting::parse("order=shortest").unwrap_err().to_string().contains(&format!("order=shortest: {shortest}")));
}

#[test]
fn wrong_values_say_what_to_write() {
    assert!(error("balance = 'fastest'").contains("round-robin, sed, eft, tokens, priced"));
    assert!(error("order = 'ffio'").contains("did you mean `fifo`?"));
    assert!(error("[notify]\nclient = 'sometimes'").contains("break-even"));
    assert!(error("[limits]\nlanes = 0").contains("use 1 to 65536"));
    assert!(error("device = []").contains("add one"));
    assert!(error("[[device]]\nname='x'\nkind='inline'\nops=['aes-256-gmc']").contains("\"aes-256-gcm\""));
    assert!(error("[[device]]\nname='x'\nkind='inline'\n[[device]]\nname='x'\nkind='inline'").contains("own name"));
    assert!(error("[[device]]\nname='a.b'\nkind='inline'").contains("characters"));
    assert!(error("[sandbox]\nuser = 'root'").contains("unprivileged"));
    assert!(error("[sandbox]\nseccomp = 'yes'").starts_with("line 2"));
    assert!(error("sample_every = -1").starts_with("line 1"));
    assert!(error("[keys]\npassphrase_file = 'x'").contains("keys.directory"));
    assert!(error("[keys]\nchanges_file = 'x'").contains("keys.directory"));
    assert!(error("[keys]\ndirectory = '/a'\nchanges_file = '/a/b'").contains("elsewhere"));
    assert!(error("sidecores.owned = true").contains("cpus = [1]"), "it would own nothing");
    assert!(error("[[device]]\nname='w'\nkind='worker'\nowned=true").contains("cpu = 1"));
    assert!(error("[limits]\nkeys = 4097").contains("use 1 to 4096"));
    for wrong in ["per_user = 0", "per_user = 4097"] {
        let said = error(&format!("[keys]\ncreators = {{ {wrong} }}"));
        assert!(said.contains(wrong) && said.contains("use 1 to 4096"), "{said}");
    }
    assert!(error("[keys]\ncreators = { gids = [4294967295] }").contains("keys.creators.gids"));
    assert!(error("[keys]\ncreators = { gid = [7] }").contains("gids"));
    let given = Config::parse("[keys]\ncreators = { gids = [0, 7] }").unwrap().keys.creators;
    assert_eq!(given, CreatorsConfig { gids: vec![0, 7], per_user: 16 });
    assert!(
        Config::read(Path::new("no/such/file"), default_socket(None)).unwrap_err().to_string().contains("no/such/file")
    );
}

#[test]
fn settings_are_read_and_refused() {
    assert_eq!(Setting::parse("notify=park").unwrap(), Setting::Notify(None, Notify::Park));
    let mut notify = NotifyConfig::default();
    let Ok(Setting::Notify(hop, park)) = Setting::parse("notify.from_device=park") else { panic!("it is one") };
    notify.set(hop, park);
    assert_eq!(notify.hops().map(|policy| policy == Notify::Park), [false, false, true, false]);
    assert_eq!(Setting::parse("balance=round-robin").unwrap(), Setting::Balance(Balance::RoundRobin));
    assert_eq!(Setting::parse("balance=tokens").unwrap(), Setting::Balance(Balance::Tokens));
    assert_eq!(Setting::parse("order=fifo").unwrap(), Setting::Order(Order::Fifo));
    assert_eq!(Setting::parse("device.a=kill").unwrap(), Setting::Device("a".to_owned(), DeviceAction::Kill));
    let added = Setting::parse(r#"device={name="w1",kind="worker",cpu=1,owned=true}"#);
    assert_eq!(added.unwrap(), Setting::AddDevice(DeviceConfig::worker("w1", Some(1), true)));
    for (wrong, hint) in [
        ("notify", "key=value"),
        ("notfy=park", "\"notify\""),
        ("device.a=kil", "\"kill\""),
        ("device={name='a',kind='worker',cpus=1}", "\"cpu\""),
        ("notify.client=parc", "park"),
        ("limits.lanes=10", "takes effect at the next start"),
        ("limits.lanes_per_cleint=10", "\"lanes_per_client\""),
        ("limits.lanes_per_client=0", "use 1 to 65536"),
        ("limits.lanes_per_client=many", "a whole number"),
    ] {
        assert!(Setting::parse(wrong).unwrap_err().to_string().contains(hint), "{wrong}");
    }
}

#[test]
fn what_is_in_force_can_be_set_as_it_is_said() {
    let config = Config::parse("[notify]\nclient = \"coalesce(32,50us)\"\n[limits]\nclients_per_uid = 300").unwrap();
    let settings = config.settings();
    let value = |key: &str| settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    assert_eq!((value("notify.client"), value("limits.clients_per_uid")), (Some("coalesce(32,50us)"), Some("300")));
    let live = settings.iter().filter(|(key, value)| Setting::parse(&format!("{key}={value}")).is_ok());
    assert_eq!(live.count(), 4 + 2 + LimitsConfig::LIVE.len());
}

#[test]
fn a_device_is_added_as_a_file_has_it() {
    for device in [
        DeviceConfig::worker("w1", Some(1), true),
        DeviceConfig::emulated("card", 2_000, 0.5),
        DeviceConfig { ops: vec!["aes-256-gcm".to_owned()], weight: Some(3), ..DeviceConfig::inline("here") },
    ] {
        assert_eq!(Setting::parse(&device.setting()).unwrap(), Setting::AddDevice(device));
    }
}

#[test]
fn the_environment_names_the_socket() {
    assert_eq!(default_socket(Some("x")), PathBuf::from("x"));
    assert_eq!(default_socket(Some("")), PathBuf::from(DEFAULT_SOCKET));
}

#[test]
fn users_of_a_service_are_separated_by_commas() {
    assert_eq!(named_users("sidecore"), ["sidecore"]);
    assert_eq!(named_users(" a, 64031 ,"), ["a", "64031"]);
    assert!(named_users("").is_empty());
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\n]{0,200}") {
        let _ = Config::parse(&text);
        let _ = Setting::parse(&text);
    }
}

#[test]
fn a_record_is_named_once_for_each_sidecore() {
    let config = Config::parse("record = \"/run/r\"\nrecord_mib = 1").unwrap();
    let path = |sidecore| config.record_path(sidecore).unwrap();
    assert_eq!((path(0), path(2)), (PathBuf::from("/run/r"), PathBuf::from("/run/r.2")));
    assert_eq!(Config::default().record_path(0), None);
    assert!(Config::parse("record_mib = 0").is_err());
    assert_eq!(Setting::parse("record=off").unwrap(), Setting::EndRecord);
    assert!(Setting::parse("record=on").unwrap_err().to_string().contains("off"));
}

#[test]
fn operations_are_named_one_by_one_or_by_family() {
    let config = |ops: &str| Config::parse(&format!("[[device]]\nname='x'\nkind='inline'\nops={ops}")).unwrap();
    let set = |names: &[&str]| names.iter().map(|name| Class::from_name(name).unwrap()).collect::<Classes>();
    let of = |ops: &str| config(ops).devices[0].classes();
    assert_eq!(of("['x25519', 'ml-kem']"), set(&["x25519", "ml-kem-768-encaps", "ml-kem-768-decaps"]));
    assert_eq!(of("['rsa-2048-sign']"), set(&["rsa-2048-sign", "rsa-2048-sign-digest"]));
    assert!(of("['sign']").contains(Class::from_name("rsa-4096-sign-digest").unwrap()));
    let refused = |op: &str| error(&format!("[[device]]\nname='x'\nkind='inline'\nops=['{op}']"));
    assert!(refused("sing").contains("\"sign\"") && refused("rsa-248").contains("\"rsa-2048\""));
    assert_eq!(config("[]").unserved(), []);
    assert_eq!(config("['rsa']").unserved().len(), Class::COUNT - 30);
    let two = "sidecores.cpus=[0,1]\n[[device]]\nname='a'\nkind='inline'\n";
    let second = |ops| format!("{two}sidecore=0\n[[device]]\nname='b'\nkind='inline'\nops={ops}");
    assert_eq!(Config::parse(&second("[]")).unwrap().unserved(), []);
    assert_eq!(Config::parse(&second("['noop']")).unwrap().unserved().len(), Class::COUNT - 1);
}

#[test]
fn the_example_is_valid_and_serves_everything() {
    let config = Config::parse(include_str!("../../../../examples/sidecore.toml")).unwrap();
    assert_eq!((config.devices.len(), config.limits_of(1000).weight), (2, 2));
    assert_eq!(config.unserved(), []);
}

#[test]
fn what_is_wrong_names_line_and_key_and_no_type_of_rust() {
    for (text, said) in [
        ("sidecores = { cpus = 'x' }", "line 1: sidecores.cpus: write a list, e.g. [1, 2], not the text \"x\""),
        ("\n[limits]\nlanes = 'many'", "line 3: limits.lanes: write a whole number from 0 on, not the text \"many\""),
        ("sample_every = -1", "line 1: sample_every: write a whole number from 0 on, not -1"),
        ("sample_every = 1.5", "line 1: sample_every: write a whole number from 0 on, not 1.5"),
        ("socket = 7", "line 1: socket: write a path in quotes, not 7"),
        ("limits = 7", "line 1: limits: write a section, not 7"),
        ("notify = { service = 'spinn' }", "line 1: notify.service: no such policy, did you mean `spin`?"),
        (
            "[[device]]\nname = 'w'\nkind = 'workr'",
            "line 3: device[0].kind: unknown value \"workr\"; did you mean \"worker\"?",
        ),
        ("[limits]\nlans = 1", "line 2: unknown key \"lans\"; did you mean \"lanes\"?"),
        (
            "[[device]]\nname = 'lanes'\nkind = 'batch'\ndisturb = 100",
            "line 4: disturb is gone: no setting makes a service that holds keys compute wrong results; leave it out",
        ),
        (
            "[[device]]\nname = 'card'\nkind = 'emulated'\nslow_after = 0",
            "line 4: slow_after is gone: no setting makes a device slower as a drill; leave it out",
        ),
        ("[limits", "line 1: "),
    ] {
        let found = Config::parse(text).unwrap_err().to_string();
        assert!(found.starts_with(said), "{text}: {found}");
        let types = ["usize", "u32", "u64", "i64", "struct", "sequence", "Notify"];
        assert!(!types.iter().any(|name| found.contains(name)), "{found}");
    }
}
