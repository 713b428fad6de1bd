//! Programs on a token with keys of all kinds, certificates and several users. Many stop at the first key that they do
//! not know, and then find none.

use crate::common::{KEYS, NOBODY, Site, is_root};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Kinds that tests of single functions need not have.
const MORE: [(&str, Kind); 4] =
    [("rsa3072", Kind::Rsa3072), ("p521", Kind::P521), ("x25519", Kind::X25519), ("mlkem768", Kind::MlKem768)];
/// OpenSSL 3.0 of Debian makes certificates for these.
const CERTIFIED: [&str; 7] = ["rsa2048", "rsa3072", "p256", "p384", "p521", "ed25519", "x25519"];
/// What every program finds.
const FOUND: [&str; 5] = ["rsa2048", "rsa3072", "p256", "p384", "p521"];

/// A token with all of that. The user [`NOBODY`] may use all keys but the longer one of RSA.
fn full() -> Site {
    let site = Site::with(&KEYS.map(|(name, _)| name));
    for (name, kind) in MORE {
        site.generate(name, kind);
    }
    for name in CERTIFIED {
        site.certify(name);
    }
    for name in KEYS.into_iter().chain(MORE).map(|(name, _)| name).filter(|name| *name != "rsa3072") {
        let acl = Acl { uids: vec![NOBODY, 1000], gids: Vec::new() };
        site.admin().keys(KeyCommand::SetAcl { name: name.to_owned(), acl }).unwrap();
    }
    site
}

const KEY_MANAGER: &str = r#"
import java.security.*;
import java.util.*;
import javax.net.ssl.*;
public class Managers {
    public static void main(String[] arguments) throws Exception {
        Provider provider = Security.getProvider("SunPKCS11").configure(arguments[0]);
        Security.addProvider(provider);
        KeyStore store = KeyStore.getInstance("PKCS11", provider);
        store.load(null, "any".toCharArray());
        for (String algorithm : new String[] {"SunX509", "PKIX"}) {
            KeyManagerFactory factory = KeyManagerFactory.getInstance(algorithm);
            factory.init(store, null);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(factory.getKeyManagers(), null, null);
        }
        for (String alias : new TreeSet<>(Collections.list(store.aliases()))) {
            if (!store.isKeyEntry(alias)) continue;
            PrivateKey key = (PrivateKey) store.getKey(alias, null);
            Signature signature = Signature.getInstance("SHA256with" + (key.getAlgorithm().equals("EC") ? "ECDSA" : "RSA"));
            signature.initSign(key);
            signature.update(alias.getBytes());
            byte[] bytes = signature.sign();
            signature.initVerify(store.getCertificate(alias));
            signature.update(alias.getBytes());
            System.out.println(alias + " " + signature.verify(bytes));
        }
    }
}
"#;

#[test]
fn java_makes_key_managers_and_signs_with_each_entry_of_a_token_with_all_kinds() {
    let site = full();
    fs::write(site.path("Managers.java"), KEY_MANAGER).unwrap();
    fs::write(site.path("java.cfg"), format!("name = sidecore\nlibrary = {}\n", site.module().display())).unwrap();
    let said = site.ok("java", &["Managers.java", "java.cfg"]);
    for name in FOUND {
        assert!(said.contains(&format!("{name} true\n")), "{name}: {said}");
    }
    if !is_root() {
        return skipped("only root can become another user");
    }
    site.open_to_all();
    for file in ["Managers.java", "java.cfg"] {
        fs::set_permissions(site.path(file), Permissions::from_mode(0o644)).unwrap();
    }
    let said = site.nobody("java", &["Managers.java", "java.cfg"]);
    assert!(said.ok && said.text.contains("rsa2048 true\n") && !said.text.contains("rsa3072"), "{}", said.text);
}

#[test]
fn openssls_engine_finds_each_key_of_a_token_with_all_kinds() {
    let site = full();
    let engine =
        "openssl_conf = init\n[init]\nengines = engines\n[engines]\npkcs11 = pkcs11\n[pkcs11]\nengine_id = pkcs11\n";
    let configuration = format!("{engine}MODULE_PATH = {}\ninit = 0\n", site.module().display());
    fs::write(site.path("engine.cnf"), configuration).unwrap();
    let configured = |args: &[&str]| site.ok("env", &[&["OPENSSL_CONF=engine.cnf", "openssl"], args].concat());
    for name in FOUND {
        let uri = format!("pkcs11:token=sidecore;object={name};type=private");
        let sign = ["dgst", "-sha256", "-engine", "pkcs11", "-keyform", "engine", "-sign", &uri];
        configured(&[&sign[..], &["-out", "signature", "message"]].concat());
        let public = format!("{name}.pub");
        let verify = ["dgst", "-sha256", "-verify", &public, "-signature", "signature", "message"];
        assert!(site.ok("openssl", &verify).contains("Verified OK"), "{name}");
    }
}

#[test]
fn the_other_programs_list_and_sign_on_a_token_with_all_kinds() {
    let site = full();
    let module = site.module();
    let provider = format!("--provider={}", module.display());
    let listed = site.tool(&["-O"]);
    let keys = site.ok("ssh-keygen", &["-D", module.to_str().unwrap()]);
    fs::create_dir(site.path("nss")).unwrap();
    site.ok("certutil", &["-N", "-d", "sql:nss", "--empty-password"]);
    let add = ["-dbdir", "sql:nss", "-add", "sidecore", "-libfile", module.to_str().unwrap(), "-force"];
    site.ok("modutil", &add);
    let of_nss = site.ok("certutil", &["-K", "-d", "sql:nss", "-h", "sidecore"]);
    for name in FOUND {
        assert!(listed.contains(&format!("label:      {name}\n")), "{listed}");
        assert!(of_nss.contains(name), "{of_nss}");
        assert!(keys.lines().any(|line| line.ends_with(&format!(" {name}"))), "{keys}");
        let uri = format!("pkcs11:token=sidecore;object={name};type=private");
        let said = site.ok("p11tool", &[&provider, "--batch", "--hash", "SHA256", "--test-sign", &uri]);
        assert!(said.contains("ok"), "{said}");
        let mechanism = if name.starts_with('r') { "SHA256-RSA-PKCS" } else { "ECDSA-SHA256" };
        let sign = ["--sign", "--id", &site.id(name), "-m", mechanism, "-i", "message", "-o", "signature"];
        site.tool(&sign);
    }
}
