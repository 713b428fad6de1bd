//! The agent as OpenSSH and others use it, with the real service.

mod attack;
mod extensions;
mod forwarding;
mod go;
mod life;
mod lists;
mod openssh;
mod raw;
mod site;
mod sshd;
mod tree;
