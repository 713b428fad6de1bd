//! The programs of the table: their files without the page's lines, and the commands that start and query them.

/// A program. The test replaces `@directory@`, `@port@`, `@user@` and `@lines@` in files and command. In a command the
/// lines are separate words.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(super) user: &'static str,
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) first: &'static [&'static [&'static str]],
    pub(crate) command: &'static [&'static str],
    pub(super) as_user: bool,
    /// Arguments of `openssl s_client` in addition to the port.
    pub(super) asked: &'static [&'static str],
    /// The log file. `None`: the program's output.
    pub(super) log: Option<&'static str>,
}

/// Values that most programs share.
const SIMPLE: Program =
    Program { name: "", user: "www-data", files: &[], first: &[], command: &[], as_user: false, asked: &[], log: None };

pub(crate) const PROGRAMS: [Program; 23] = [
    Program {
        name: "nginx",
        files: &[("nginx.conf", include_str!("nginx.conf"))],
        command: &["nginx", "-e", "stderr", "-c", "@directory@/nginx.conf"],
        ..SIMPLE
    },
    Program {
        name: "HAProxy",
        files: &[("haproxy.cfg", include_str!("haproxy.cfg"))],
        command: &["haproxy", "-W", "-db", "-f", "@directory@/haproxy.cfg"],
        ..SIMPLE
    },
    Program {
        name: "Apache",
        files: &[("apache.conf", include_str!("apache.conf"))],
        command: &["apache2", "-f", "@directory@/apache.conf", "-DFOREGROUND"],
        ..SIMPLE
    },
    Program {
        name: "lighttpd",
        files: &[("lighttpd.conf", include_str!("lighttpd.conf"))],
        command: &["lighttpd", "-D", "-f", "@directory@/lighttpd.conf"],
        ..SIMPLE
    },
    Program {
        name: "stunnel",
        user: "stunnel4",
        files: &[("stunnel.conf", include_str!("stunnel.conf"))],
        command: &["stunnel4", "@directory@/stunnel.conf"],
        ..SIMPLE
    },
    Program {
        name: "PostgreSQL",
        user: "postgres",
        files: &[("postgresql.conf", include_str!("postgresql.conf"))],
        first: &[&["initdb", "--no-sync", "--auth", "trust", "-D", "@directory@/data"]],
        command: &["postgres", "-D", "@directory@/data", "-c", "config_file=@directory@/postgresql.conf"],
        as_user: true,
        asked: &["-starttls", "postgres"],
        ..SIMPLE
    },
    Program {
        name: "redis",
        user: "redis",
        files: &[("redis.conf", include_str!("redis.conf"))],
        command: &["redis-server", "@directory@/redis.conf"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "Postfix",
        user: "postfix",
        files: &[("main.cf", include_str!("main.cf")), ("master.cf", include_str!("master.cf"))],
        first: &[
            &["install", "-d", "@directory@/queue"],
            &["install", "-d", "-o", "@user@", "@directory@/data"],
            &["postfix", "-c", "@directory@", "check"],
        ],
        command: &["master", "-c", "@directory@", "-d"],
        asked: &["-starttls", "smtp"],
        log: Some("postfix.log"),
        ..SIMPLE
    },
    Program {
        name: "Dovecot",
        user: "dovenull",
        files: &[("dovecot.conf", include_str!("dovecot.conf"))],
        command: &["dovecot", "-F", "-c", "@directory@/dovecot.conf"],
        ..SIMPLE
    },
    Program {
        name: "Node",
        files: &[("server.js", include_str!("server.js"))],
        command: &["node", "@directory@/server.js"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "Python",
        files: &[("server.py", include_str!("server.py"))],
        command: &["/usr/bin/python3", "@directory@/server.py"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "BIND",
        user: "bind",
        files: &[("named.conf", include_str!("named.conf"))],
        command: &["named", "-4", "-g", "-n", "1", "-c", "@directory@/named.conf"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "mosquitto",
        user: "mosquitto",
        files: &[("mosquitto.conf", include_str!("mosquitto.conf"))],
        command: &["mosquitto", "-c", "@directory@/mosquitto.conf"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "memcached",
        user: "memcache",
        command: &["memcached", "-l", "127.0.0.1", "-p", "@port@", "-Z", "@lines@"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "MariaDB",
        user: "mysql",
        files: &[("my.cnf", include_str!("my.cnf"))],
        first: &[&["install", "-d", "@directory@/data"]],
        command: &["mariadbd", "--defaults-file=@directory@/my.cnf"],
        as_user: true,
        asked: &["-starttls", "mysql"],
        ..SIMPLE
    },
    Program {
        name: "uWSGI",
        files: &[("uwsgi.ini", include_str!("uwsgi.ini"))],
        command: &["uwsgi-core", "--ini", "@directory@/uwsgi.ini"],
        ..SIMPLE
    },
    Program {
        name: "FreeRADIUS",
        user: "freerad",
        files: &[("radiusd.conf", include_str!("radiusd.conf"))],
        command: &["freeradius", "-f", "-l", "stdout", "-d", "@directory@", "-n", "radiusd"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "vsftpd",
        user: "nobody",
        files: &[("vsftpd.conf", include_str!("vsftpd.conf"))],
        command: &["vsftpd", "@directory@/vsftpd.conf"],
        ..SIMPLE
    },
    Program {
        name: "Perl",
        files: &[("server.pl", include_str!("server.pl"))],
        command: &["perl", "@directory@/server.pl"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "PHP",
        files: &[("server.php", include_str!("server.php"))],
        command: &["php", "@directory@/server.php"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "Puma",
        files: &[("puma.rb", include_str!("puma.rb"))],
        command: &["puma", "-C", "@directory@/puma.rb"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "WEBrick",
        files: &[("webrick.rb", include_str!("webrick.rb"))],
        command: &["ruby", "@directory@/webrick.rb"],
        as_user: true,
        ..SIMPLE
    },
    Program {
        name: "Kamailio",
        user: "kamailio",
        files: &[("kamailio.cfg", include_str!("kamailio.cfg")), ("tls.cfg", include_str!("kamailio-tls.cfg"))],
        command: &["kamailio", "-DD", "-E", "-f", "@directory@/kamailio.cfg", "-Y", "@directory@"],
        as_user: true,
        ..SIMPLE
    },
];

/// Files of programs that differ on Debian 13.
pub(super) const DEBIAN_13_FILES: [(&str, &[(&str, &str)]); 1] =
    [("Dovecot", &[("dovecot.conf", include_str!("dovecot-2.4.conf"))])];
