//! The list of keys, as a table or as JSON.

use super::terms::Terms;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use nix::unistd::{Gid, Group, Uid, User};
use serde_json::json;
use sidecore::keys::{Acl, KeyEntry, UsableKey};

pub(super) fn render(entries: &[KeyEntry], terms: &Terms, json: bool) -> String {
    if json {
        return entries.iter().map(|entry| object(entry, terms.get(&entry.name)).to_string() + "\n").collect();
    }
    if entries.is_empty() {
        return "no keys\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["name", "kind", "kept", "private part", "used for", "limit", "certificates", "who may use it"]);
    for entry in entries {
        let kept = if entry.at_rest { "at rest" } else { "in memory" };
        let terms = terms.get(&entry.name);
        let told = |tell: fn(&UsableKey) -> String| terms.map(tell).unwrap_or_default();
        let used_for = told(|key| key.usage.to_string());
        let limit = told(|key| key.rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate}/s")));
        let certificates = told(|key| key.certificates.to_string());
        let (kind, site, users) = (entry.kind.name(), entry.site.name(), users(&entry.acl));
        table.add_row([&entry.name, kind, kept, site, &used_for, &limit, &certificates, &users]);
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

pub(super) fn users(acl: &Acl) -> String {
    let user =
        |uid: &u32| named("user", *uid, User::from_uid(Uid::from_raw(*uid)).ok().flatten().map(|user| user.name));
    let group =
        |gid: &u32| named("group", *gid, Group::from_gid(Gid::from_raw(*gid)).ok().flatten().map(|group| group.name));
    let others: Vec<String> = acl.uids.iter().map(user).chain(acl.gids.iter().map(group)).collect();
    if others.is_empty() { "root and the service's user only".to_owned() } else { others.join(", ") }
}

fn named(what: &str, id: u32, name: Option<String>) -> String {
    name.map_or_else(|| format!("{what} {id}"), |name| format!("{what} {name} ({id})"))
}

fn object(entry: &KeyEntry, terms: Option<&UsableKey>) -> serde_json::Value {
    let mut object = json!({
        "name": entry.name,
        "kind": entry.kind.name(),
        "at_rest": entry.at_rest,
        "private_part": entry.site.name(),
        "uids": entry.acl.uids,
        "gids": entry.acl.gids,
    });
    if let Some(key) = terms {
        object["usage"] = key.usage.words().collect();
        object["limit"] = json!(key.rate);
        object["certificates"] = json!(key.certificates);
        object["owner"] = json!(key.owner);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore::keys::{Kind, Site, Usage};

    #[test]
    fn a_list_says_who_may_use_what() {
        let acl = Acl { uids: vec![0, 4_000_000_000], gids: vec![0] };
        let other = KeyEntry {
            name: "b".to_owned(),
            kind: Kind::P256,
            acl: Acl::default(),
            at_rest: false,
            site: Site::Elsewhere,
            idle_seconds: 0,
        };
        let entries = [
            KeyEntry {
                name: "a".to_owned(),
                kind: Kind::Rsa2048,
                acl,
                at_rest: true,
                site: Site::Here,
                idle_seconds: 0,
            },
            other,
        ];
        let key = UsableKey {
            name: "a".to_owned(),
            kind: Kind::Rsa2048,
            public: Vec::new(),
            usage: Usage::SIGN,
            site: Site::Here,
            certificates: 2,
            rate: Some(100),
            owner: None,
        };
        let terms = Terms::from([("a".to_owned(), key)]);
        let text = render(&entries, &terms, false);
        assert!(text.contains("sign") && !text.contains("decrypt") && text.contains("100/s"), "{text}");
        assert!(text.contains("user root (0), user 4000000000, group root (0)"), "{text}");
        assert!(text.contains("in memory") && text.contains("only"), "{text}");
        assert!(text.contains("here") && text.contains("remote"), "{text}");
        let json = render(&entries, &terms, true);
        let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["uids"], json!([0, 4_000_000_000_u32]));
        assert_eq!((&lines[1]["kind"], &lines[1]["at_rest"]), (&json!("p-256"), &json!(false)));
        let told = ["usage", "limit", "certificates", "owner"].map(|name| lines[0][name].clone());
        assert_eq!(told, [json!(["sign"]), json!(100), json!(2), json!(null)]);
        assert_eq!(lines[1].get("usage"), None, "a service of an older version says nothing of it");
        assert_eq!((render(&[], &terms, false).as_str(), render(&[], &terms, true).as_str()), ("no keys\n", ""));
    }
}
