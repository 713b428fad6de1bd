//! The service's configuration: one TOML file, strict, with units in the names of its keys.

use crate::keys::{Served, StoreError, read_partner};
use crate::spec::Secret;
use serde::{Deserialize, Serialize};
use sidecore_client::gateway::Operation;
use sidecore_client::keys::transfer::Address;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::{Notify, ThreadCore, Waiters};
use sidecore_core::policy::order::Order;
use sidecore_core::session::{Class, Classes, Op};
use sidecore_counters::counters_beside;
pub use sidecore_daemon::config::{ConfigError, ConfigErrorKind, SandboxConfig, Sidecores};
use sidecore_daemon::config::{check_socket, in_file, names, octal, read, require, text_of, unknown, within};
use sidecore_daemon::sandbox::{Directories, Duty};
use sidecore_daemon::tenants::{SUBUID, Subordinates, SubordinatesError};
use std::path::{Path, PathBuf};

mod creators;
mod error;
mod limits;
mod passphrase;
mod serve_to;
mod setting;

pub use creators::CreatorsConfig;
pub use error::{DeviceConfigError, KeysConfigError, PassphraseError, SettingError, UnfitPassphrase};
pub use limits::{ClientConfig, ClientLimits, LimitsConfig};
pub(crate) use passphrase::check_passphrase;
pub use passphrase::read_passphrase;
pub use serve_to::{MAX_SERVICES, ServeToConfig};
pub(crate) use setting::HOPS;
pub use setting::{DeviceAction, Setting};
pub use sidecore_ipc::environment::{
    DEFAULT_SERVICE_USER, DEFAULT_SOCKET, SERVICE_USER_VARIABLE, SOCKET_VARIABLE, default_socket, named_users,
    service_users, socket_of_environment,
};

/// Keys of earlier versions and of another service.
const FOREIGN: [(&str, &str); 3] = [
    ("disturb", "is gone: no setting makes a service that holds keys compute wrong results; leave it out"),
    ("slow_after", "is gone: no setting makes a device slower as a drill; leave it out"),
    ("sockets", "is for a service of its own: start that with `sidecore sockets serve --config FILE`"),
];

/// All of it. Every key has a default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Octal file mode of the socket: it decides which users may connect.
    #[serde(deserialize_with = "octal")]
    pub socket_mode: u32,
    /// Path of the counter file; default: the socket's path with `.counters` added.
    pub counters: Option<PathBuf>,
    /// One request in this many carries stage times; 0: none. Long operations are always sampled.
    pub sample_every: u32,
    /// File to record each sidecore's decisions to, for `sidecore sim replay`; default: none.
    pub record: Option<PathBuf>,
    /// Most MiB of memory, and of file, that the record of one sidecore takes.
    pub record_mib: u32,
    /// The cores of the sidecores.
    pub sidecores: Sidecores,
    /// How each hop waits.
    pub notify: NotifyConfig,
    /// Which device gets a request.
    #[serde(deserialize_with = "parsed")]
    pub balance: Balance,
    /// The order of the requests on each device.
    #[serde(deserialize_with = "parsed")]
    pub order: Order,
    /// Devices of each sidecore; default: the sidecore itself.
    #[serde(rename = "device")]
    pub devices: Vec<DeviceConfig>,
    /// Limits of one client, and of all together.
    pub limits: LimitsConfig,
    /// Other limits for some users.
    #[serde(rename = "client")]
    pub clients: Vec<ClientConfig>,
    /// The place of stored keys.
    pub keys: KeysConfig,
    /// The file with users' subordinate users, as `subuid(5)` says.
    pub subordinates: PathBuf,
    /// Those users, once read. `None`: the service reads the file itself.
    #[serde(skip)]
    pub subordinate_users: Option<Subordinates>,
    /// Restrictions that `sidecore serve` puts on itself.
    pub sandbox: SandboxConfig,
}

/// Other services, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partners {
    /// Those to which keys may be sent.
    pub recipients: Vec<Address>,
    /// Those from which keys may come.
    pub senders: Vec<Address>,
    /// Those that have requests done here, and what they may have done.
    pub served: Vec<Served>,
    /// Those that do requests for this one.
    pub far: Vec<Address>,
}

/// The place of stored keys. Without a directory: in memory only, until the service ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeysConfig {
    /// The directory of the sealed keys, which only the service's user may enter. It is made if it does not exist.
    pub directory: Option<PathBuf>,
    /// The file with the passphrase that seals them.
    pub passphrase_file: Option<PathBuf>,
    /// A file for the number of the last change, in another place: a start with an old copy of the directory is
    /// refused.
    pub changes_file: Option<PathBuf>,
    /// Keys that are abandoned if their files are missing at start.
    pub accept_missing: Vec<String>,
    /// Keys whose RSA decryption with PKCS#1 v1.5 refuses bad padding, as mail to several recipients needs it.
    pub explicit_decryption_errors: Vec<String>,
    /// Files with the addresses of services to which keys may be sent, read at start.
    pub send_to: Vec<PathBuf>,
    /// Files with the addresses of services from which keys may come, read at start.
    pub receive_from: Vec<PathBuf>,
    /// Services that have requests done here, sealed, through a key server.
    pub serve_to: Vec<ServeToConfig>,
    /// Files with the addresses of services that do requests for this one, read at start. With any, requests go sealed to
    /// these, and no other machine is asked.
    pub served_by: Vec<PathBuf>,
    /// The addresses of all, once read. `None`: the service reads the files itself.
    #[serde(skip)]
    pub partners: Option<Partners>,
    /// Users who may have keys made for themselves.
    pub creators: CreatorsConfig,
}

/// How each of the four hops waits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotifyConfig {
    /// Client to service: how the sidecore waits for requests.
    #[serde(deserialize_with = "parsed")]
    pub service: Notify,
    /// Service to device: how a worker waits for requests.
    #[serde(deserialize_with = "parsed")]
    pub to_device: Notify,
    /// Device to service: when a worker wakes its sidecore.
    #[serde(deserialize_with = "parsed")]
    pub from_device: Notify,
    /// Service to client: how clients wait for completions, and when they are woken.
    #[serde(deserialize_with = "parsed")]
    pub client: Notify,
}

/// One device.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Name in messages, counters and `sidecore set`.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Number of its only sidecore; default: every sidecore has one of these devices.
    pub sidecore: Option<usize>,
    /// Worker and batch: the core it is tied to.
    pub cpu: Option<usize>,
    /// Worker and batch: nothing else runs on that core, so it may spin.
    #[serde(default)]
    pub owned: bool,
    /// Most requests on it at a time, if not [`DeviceConfig::depth`]'s default.
    pub depth: Option<u32>,
    /// Relative speed for `sed`; default: from the measured rates.
    pub weight: Option<u32>,
    /// Emulated: time of each request, ns.
    #[serde(default)]
    pub fixed_ns: u64,
    /// Emulated: additional time of each input byte, ns.
    #[serde(default)]
    pub per_byte_ns: f64,
    /// Remote: the farm of its key servers.
    pub farm: Option<String>,
    /// Remote: the user, by number or name, whose process may be its gateway. Root and the service's own user may
    /// always.
    #[serde(default, deserialize_with = "user")]
    pub user: Option<u32>,
    /// The operations that it does, by [families](Class::belongs_to); default: all.
    #[serde(default)]
    pub ops: Vec<String>,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The sidecore itself.
    Inline,
    /// A thread on a core of its own.
    Worker,
    /// Computes the true result and returns it at the modelled time.
    Emulated,
    /// A worker that does requests of several clients side by side, where measured to be faster.
    Batch,
    /// Key services on other machines: available while a gateway is connected.
    Remote,
}

/// What the sandbox permits a service of keys: it has secrets, and opens files of its directories.
pub const DUTY: Duty = Duty { secrets: true, files: true, ..Duty::NONE };

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: default_socket(None),
            socket_mode: 0o660,
            counters: None,
            sample_every: 64,
            record: None,
            record_mib: 64,
            sidecores: Sidecores::default(),
            notify: NotifyConfig::default(),
            balance: Balance::Eft,
            order: Order::Fifo,
            devices: vec![DeviceConfig::inline("inline")],
            limits: LimitsConfig::default(),
            clients: Vec::new(),
            keys: KeysConfig::default(),
            sandbox: SandboxConfig::default(),
            subordinates: SUBUID.into(),
            subordinate_users: None,
        }
    }
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self::all(Notify::BreakEven)
    }
}

impl DeviceKind {
    /// Whether it is a thread with a core of its own.
    pub fn has_place(self) -> bool {
        matches!(self, Self::Worker | Self::Batch)
    }

    /// Name in the file and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Worker => "worker",
            Self::Emulated => "emulated",
            Self::Batch => "batch",
            Self::Remote => "remote",
        }
    }
}

impl NotifyConfig {
    /// The policies in the order of the counter file: service, to device, from device, client.
    pub fn hops(&self) -> [Notify; 4] {
        [self.service, self.to_device, self.from_device, self.client]
    }

    pub(crate) fn set(&mut self, hop: Option<usize>, notify: Notify) {
        let hops = [&mut self.service, &mut self.to_device, &mut self.from_device, &mut self.client];
        let chosen = hops.into_iter().enumerate().filter(|(number, _)| hop.is_none_or(|hop| hop == *number));
        chosen.for_each(|(_, policy)| *policy = notify);
    }

    /// The same policy on every hop.
    pub fn all(notify: Notify) -> Self {
        Self { service: notify, to_device: notify, from_device: notify, client: notify }
    }
}

impl DeviceConfig {
    /// The sidecore itself as a device.
    pub fn inline(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: DeviceKind::Inline,
            sidecore: None,
            cpu: None,
            owned: false,
            depth: None,
            weight: None,
            fixed_ns: 0,
            per_byte_ns: 0.0,
            farm: None,
            user: None,
            ops: Vec::new(),
        }
    }

    /// A thread as a device, on that core if one is given. `owned`: it may spin there.
    pub fn worker(name: &str, cpu: Option<usize>, owned: bool) -> Self {
        Self { kind: DeviceKind::Worker, cpu, owned, ..Self::inline(name) }
    }

    /// A device that takes `fixed_ns` for each request and `per_byte_ns` for each input byte.
    pub fn emulated(name: &str, fixed_ns: u64, per_byte_ns: f64) -> Self {
        Self { kind: DeviceKind::Emulated, fixed_ns, per_byte_ns, ..Self::inline(name) }
    }

    /// A worker that does several requests side by side, on `cpu` if one is given. `owned`: it may spin there.
    pub fn batch(name: &str, cpu: Option<usize>, owned: bool) -> Self {
        Self { kind: DeviceKind::Batch, ..Self::worker(name, cpu, owned) }
    }

    /// Other machines of the farm, for the keys that they hold.
    pub fn remote(name: &str, farm: &str) -> Self {
        Self { kind: DeviceKind::Remote, farm: Some(farm.to_owned()), ..Self::inline(name) }
    }

    /// Most requests on it at a time. Other machines get more of them: each is under way for a round trip.
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(if self.kind == DeviceKind::Remote { 256 } else { 64 })
    }

    /// Where its thread runs. `None`: it is no thread of its own.
    pub fn place(&self) -> Option<ThreadCore> {
        self.kind.has_place().then(|| ThreadCore::new(self.cpu, self.owned))
    }

    /// The classes that the device does.
    pub fn classes(&self) -> Classes {
        Class::all().filter(|class| self.can(*class)).collect()
    }

    fn can(&self, class: Class) -> bool {
        // Other machines get only operations with the private key.
        if self.kind == DeviceKind::Remote && !takes_key(class) {
            return false;
        }
        self.ops.is_empty() || self.ops.iter().any(|family| class.belongs_to(family))
    }
}

impl Config {
    /// Reads [`Config::subordinates`], unless that is done. Returns what in the file has no effect, for warnings.
    /// A process that enters the sandbox calls this before: the sandbox hides the file.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read_subordinates(&mut self) -> Result<Vec<String>, SubordinatesError> {
        if self.subordinate_users.is_some() {
            return Ok(Vec::new());
        }
        let path = &self.subordinates;
        let (users, wrong) = Subordinates::read(path)?;
        self.subordinate_users = Some(users);
        Ok(wrong)
    }

    /// Reads and checks a file. `socket` is the default for its socket.
    ///
    /// # Errors
    /// Names the file, the line, and the remedy.
    pub fn read(path: &Path, socket: PathBuf) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(in_file(path))?;
        let mut config = Self::parse(&text).map_err(in_file(path))?;
        if !names(&text, "socket") {
            config.socket = socket;
        }
        Ok(config)
    }

    /// Reads and checks the text of a file.
    ///
    /// # Errors
    /// Names the line and the remedy.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = read(text, &FOREIGN)?;
        config.check()?;
        Ok(config)
    }

    /// Checks numbers against each other and against their limits.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.limits.check()?;
        check_socket(&self.socket)?;
        self.sandbox.check()?;
        within("record_mib", self.record_mib, 1, 4096)?;
        require(!self.devices.is_empty(), || KeysConfigError::NoDevice)?;
        self.sidecores.check()?;
        let last = self.sidecores.cpus.len().max(1) - 1;
        for (i, device) in self.devices.iter().enumerate() {
            device.check()?;
            let (name, number) = (&device.name, device.sidecore.unwrap_or(0));
            require(number <= last, || device.error(DeviceConfigError::Sidecore { number, last }))?;
            let is_new = self.devices[..i].iter().all(|other| other.name != *name);
            require(is_new, || KeysConfigError::SameName(name.clone()))?;
        }
        self.keys.check()?;
        for client in &self.clients {
            within("client.weight", client.weight.unwrap_or(1), 1, 1000)?;
        }
        Ok(())
    }

    /// The cores of sidecores and devices.
    pub fn cpus(&self) -> impl Iterator<Item = usize> {
        let devices = self.devices.iter().filter_map(|device| device.cpu);
        self.sidecores.cpus.iter().copied().chain(devices)
    }

    /// The directories that the service works in.
    pub fn directories(&self) -> Directories {
        let directories = Directories::of_socket(&self.socket).with_file(&self.counters_path());
        let directories = self.record.iter().fold(directories, |all, record| all.with_file(record));
        let directories = self.keys.directory.iter().fold(directories, |all, keys| all.with_private(keys));
        self.keys.changes_file.iter().fold(directories, |all, file| all.with_listed_file(file))
    }

    /// The operations without a device on some sidecore: requests for them are refused there.
    pub fn unserved(&self) -> Vec<Class> {
        let does = |sidecore: usize, class: Class| {
            let mut here = self.devices.iter().filter(|device| device.sidecore.is_none_or(|number| number == sidecore));
            here.any(|device| device.can(class))
        };
        let everywhere = |class: Class| (0..self.sidecores.cpus.len().max(1)).all(|sidecore| does(sidecore, class));
        Class::all().filter(|class| !everywhere(*class)).collect()
    }

    /// Path of the counter file.
    pub fn counters_path(&self) -> PathBuf {
        self.counters.clone().unwrap_or_else(|| counters_beside(&self.socket))
    }

    /// The threads that wait, of a service that may use these cores.
    pub fn waiters(&self, allowed: &[usize]) -> Waiters {
        let Sidecores { cpus, owned } = &self.sidecores;
        Waiters::of(cpus, *owned, self.devices.iter().filter_map(DeviceConfig::place).collect(), allowed)
    }

    /// Path of that sidecore's record: the first has the configured one, the others append their numbers.
    pub fn record_path(&self, sidecore: usize) -> Option<PathBuf> {
        let mut path = self.record.clone()?.into_os_string();
        if sidecore > 0 {
            path.push(format!(".{sidecore}"));
        }
        Some(PathBuf::from(path))
    }

    /// Limits of a client of this user.
    pub fn limits_of(&self, uid: u32) -> ClientLimits {
        let own = self.clients.iter().find(|client| client.uid == uid);
        let pick = |value: fn(&ClientConfig) -> Option<u32>, default| own.and_then(value).unwrap_or(default);
        ClientLimits {
            weight: pick(|c| c.weight, 1),
            lanes: pick(|c| c.lanes, self.limits.lanes_per_client),
            in_flight: pick(|c| c.in_flight, self.limits.in_flight_per_client),
            arena_bytes: pick(|c| c.arena_bytes, self.limits.arena_bytes_per_client),
        }
    }
}

impl KeysConfig {
    /// Reads the passphrase; `None`: no file is named.
    ///
    /// # Errors
    /// The file cannot be read, others may read it too, or it is empty or too long.
    pub fn passphrase(&self) -> Result<Option<Secret>, PassphraseError> {
        self.passphrase_file.as_deref().map(read_passphrase).transpose()
    }

    /// Reads the addresses of other services, for a process that can no longer read the files when the
    /// service starts.
    ///
    /// # Errors
    /// A file cannot be read, others may write it, or there is no address in it.
    pub fn read_partners(&self) -> Result<Partners, StoreError> {
        let read = |setting, files: &[PathBuf]| {
            let addresses = files.iter().map(|file| read_partner(file)).collect::<Result<_, _>>();
            addresses.map_err(|why| StoreError::Partner { setting, why })
        };
        let (recipients, senders) = (read("send_to", &self.send_to)?, read("receive_from", &self.receive_from)?);
        let served = |to: &ServeToConfig| {
            let address = read_partner(&to.address).map_err(|why| StoreError::Partner { setting: "serve_to", why })?;
            Ok(Served { address, keys: to.keys.clone(), usage: to.operations, rate: to.limit })
        };
        let served = self.serve_to.iter().map(served).collect::<Result<_, StoreError>>()?;
        Ok(Partners { recipients, senders, served, far: read("served_by", &self.served_by)? })
    }

    /// A missing passphrase is found at start only, since `sidecore serve` may get one as an argument.
    fn check(&self) -> Result<(), ConfigError> {
        let Self { directory, passphrase_file, changes_file, .. } = self;
        require(directory.is_some() || passphrase_file.is_none(), || KeysConfigError::PassphraseAlone)?;
        require(directory.is_some() || changes_file.is_none(), || KeysConfigError::ChangesAlone)?;
        let inside = |directory| changes_file.as_ref().is_some_and(|file| file.starts_with(directory));
        require(!directory.as_ref().is_some_and(inside), || KeysConfigError::ChangesInside)?;
        within("keys.served_by", self.served_by.len() as u64, 0, MAX_SERVICES as u64)?;
        within("keys.serve_to", self.serve_to.len() as u64, 0, MAX_SERVICES as u64)?;
        self.serve_to.iter().try_for_each(ServeToConfig::check)?;
        self.creators.check()
    }
}

impl DeviceConfig {
    /// Checks the numbers of one device.
    ///
    /// # Errors
    /// Names the key and the remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        let unfit = |c: char| matches!(c, '.' | '=') || c.is_control();
        let has_name = !name.is_empty() && name.len() <= 32 && !name.contains(unfit);
        require(has_name, || KeysConfigError::DeviceName(name.clone()))?;
        let demand = |is_fine, why| require(is_fine, || self.error(why));
        demand(!self.owned || self.cpu.is_some(), DeviceConfigError::NothingOwned)?;
        let is_remote = self.kind == DeviceKind::Remote;
        let is_token = |farm: &str| {
            let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=32).contains(&farm.len()) && farm.bytes().all(is_one)
        };
        let has_farm = self.farm.as_deref().map_or(!is_remote, |farm| is_remote && is_token(farm));
        demand(has_farm, DeviceConfigError::Farm)?;
        demand(is_remote || self.user.is_none(), DeviceConfigError::User)?;
        within("device.depth", self.depth(), 1, 4096)?;
        within("device.weight", self.weight.unwrap_or(1), 1, 1000)?;
        let has_times = (0.0..=1e6).contains(&self.per_byte_ns) && self.fixed_ns <= 1_000_000_000;
        demand(has_times, DeviceConfigError::Times)?;
        let means_some = |family: &str| Class::all().any(|class| class.belongs_to(family));
        match self.ops.iter().find(|family| !means_some(family)) {
            Some(family) => Err(unknown("operation", family, Class::all().flat_map(Class::families)).into()),
            None => Ok(()),
        }
    }

    fn error(&self, why: DeviceConfigError) -> KeysConfigError {
        KeysConfigError::Device(self.name.clone(), why)
    }
}

fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: setting::Parse,
{
    let text = String::deserialize(deserializer)?;
    T::parse_text(&text).map_err(serde::de::Error::custom)
}

fn user<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let by_name = || Some(nix::unistd::User::from_name(&text).ok()??.uid.as_raw());
    let found = text.parse().ok().or_else(by_name);
    found.map(Some).ok_or_else(|| serde::de::Error::custom(format!("there is no user {text:?} here: name another")))
}

fn takes_key(class: Class) -> bool {
    let has = |op| Class::of(class.algorithm(), op).is_some();
    let is_cipher = has(Op::Encrypt) && !has(Op::Sign);
    Operation::of(class.op()).is_some() && !is_cipher && !class.belongs_to("hmac")
}

#[cfg(test)]
mod tests;
