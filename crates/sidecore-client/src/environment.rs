//! What a program without a configuration knows of its service: from its environment, or by default.

use crate::sys::secure::is_privileged;
use std::path::PathBuf;

/// Where the service listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/sidecore/sidecore.sock";
/// The environment variable that names another socket, for service and clients.
pub const SOCKET_VARIABLE: &str = "SIDECORE_SOCKET";
/// Names the users whose service is trusted beside root's and one's own, separated by commas.
pub const SERVICE_USER_VARIABLE: &str = "SIDECORE_SERVICE_USER";
/// The user that the package makes for the service, trusted where no other is named.
pub const DEFAULT_SERVICE_USER: &str = "sidecore";

/// The socket's path: the given one, that of the environment, or the default.
pub fn default_socket(environment: Option<&str>) -> PathBuf {
    PathBuf::from(environment.filter(|path| !path.is_empty()).unwrap_or(DEFAULT_SOCKET))
}

/// The socket's path for a program without a configuration: that of its environment, or the default.
pub fn socket_of_environment() -> PathBuf {
    default_socket(trusted_variable(SOCKET_VARIABLE).as_deref())
}

/// Users whose service a program without a configuration trusts beside root's and its own.
pub fn service_users() -> Vec<String> {
    service_users_or(DEFAULT_SERVICE_USER)
}

/// The same, for a service that has this user where none is named.
pub(crate) fn service_users_or(default: &str) -> Vec<String> {
    named_users(trusted_variable(SERVICE_USER_VARIABLE).as_deref().unwrap_or(default))
}

/// Users that are separated by commas.
pub fn named_users(text: &str) -> Vec<String> {
    text.split(',').map(|user| user.trim().to_owned()).filter(|user| !user.is_empty()).collect()
}

/// A variable of the environment. A program that has more rights than who started it has none: it would do with them
/// what that one likes.
pub(crate) fn trusted_variable(name: &str) -> Option<String> {
    if is_privileged() { None } else { std::env::var(name).ok() }
}
