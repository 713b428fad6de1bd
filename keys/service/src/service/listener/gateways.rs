//! Gateways: processes of a named user that serve remote devices, and the keys of the machines behind them.
//!
//! The control thread stops reading a connection that became a gateway's. Its link reads it, and reports news.

use super::complaints::Complaint;
use super::connection::{Gateway, not_connected};
use super::state::Listener;
use crate::config::{DeviceConfig, DeviceKind};
use crate::control::{RefusalCode, Refused, Reply};
use crate::device::{Fault, LinkOptions, Remote, Said};
use crate::events;
use crate::service::command::{Event, LaneKey};
use crate::service::reactor::thread::Reactor;
use sidecore_client::gateway::{Hello, MAX_OFFERS, VERSION, Welcome};
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::{cpu, wake};
use sidecore_ipc::versions::other_version;
use std::collections::BTreeMap;

impl Listener {
    pub(super) fn gateway(&mut self, key: LaneKey, hello: &Hello) -> Result<(), Refused> {
        let Hello { version, device: name } = hello;
        if *version != VERSION {
            let why = other_version("the gateway speaks protocol", *version, VERSION);
            return Err(Refused::new(RefusalCode::OtherVersion, why));
        }
        let device = self.device_of_gateway(key, name)?;
        if let Some(other) = self.gateways.iter().find(|(_, other)| other.device.name == *name).map(|(key, _)| key) {
            let process = self.connections.get(other).map_or(0, |connection| connection.client.1);
            return Err(Refused::other(format_args!(
                "device {name:?} has a gateway already, process {process}: stop that one, or give this one a device of its own"
            )));
        }
        let connection = self.connections.get(&key).ok_or_else(not_connected)?;
        let free = connection.attached.is_none() && connection.own.is_none();
        ensure!(free, "this connection has a lane or a key already: connect again for a gateway");
        let socket = connection.socket.try_clone().map_err(Refused::other)?;
        let (user, process) = connection.client;
        let timeout_ms = self.setup.config.limits.device_timeout_ms;
        let with: Vec<usize> = match device.sidecore {
            Some(sidecore) => vec![sidecore],
            None => (0..self.setup.sidecores.len()).collect(),
        };
        let farm = device.farm.clone().unwrap_or_default();
        let welcome = Welcome { farm, depth: device.depth() * with.len() as u32, timeout_ms };
        self.reply(key, &Reply::Gateway(welcome)).map_err(Refused::other)?;
        let far = self.setup.store.far_services()?;
        let allowed = cpu::allowed();
        let (tell, bell) = (self.setup.tell.clone(), self.setup.wake.clone());
        let options = LinkOptions {
            name: device.name.clone(),
            free: self.setup.config.waiters(&allowed).free(&allowed),
            depth: device.depth(),
            max_request: self.setup.config.limits.max_request_bytes,
            timeout: Nanos::from(timeout_ms) * 1_000_000,
            socket,
            far,
            tell: Box::new(move |said| {
                // Without a control thread the service is ending.
                if tell.send(Event::Gateway(key, said)).is_ok() {
                    wake::ring(&*bell);
                }
            }),
        };
        let bells: Vec<_> = with.iter().map(|sidecore| self.setup.sidecores[*sidecore].bell()).collect();
        let (control, ports) = Remote::start(options, bells.into_iter()).map_err(Refused::other)?;
        for (sidecore, port) in with.into_iter().zip(ports) {
            let device = device.clone();
            // Without room for one more device, the port is dropped and with it the link.
            self.setup.sidecores[sidecore].send(move |reactor| drop(reactor.join(&device, key, port)));
        }
        // From now on only the link reads it.
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.busy = true;
        }
        if let Some(suppressed) = self.complains(Complaint::Gateway, user) {
            events::gateway_connected(name, (user, process), suppressed);
        }
        self.gateways.insert(key, Gateway { device, control, offers: BTreeMap::new(), doubted: false });
        Ok(())
    }

    fn device_of_gateway(&self, key: LaneKey, name: &str) -> Result<DeviceConfig, Refused> {
        let name: String = name.chars().take(80).collect();
        let mut remote = self.setup.config.devices.iter().filter(|device| device.kind == DeviceKind::Remote);
        let device = remote.find(|device| device.name == name).ok_or_else(|| {
            Refused::other(format_args!(
                "there is no remote device {name:?}: add one to the configuration, with kind = \"remote\" and its farm"
            ))
        })?;
        let asker = self.asker(key)?;
        let stranger =
            asker.peers().find(|peer| !self.setup.store.is_master(peer.uid) && device.user != Some(peer.uid));
        match stranger {
            None => Ok(device.clone()),
            Some(peer) => {
                let why = format!(
                    "user {} may not be the gateway of device {name:?}: name that user in the device's configuration (user), or run \
                     the gateway as the one that is named there",
                    peer.uid
                );
                Err(Refused::new(RefusalCode::NotAllowed, why))
            }
        }
    }

    pub(super) fn gateway_said(&mut self, key: LaneKey, said: Said) {
        match said {
            // The last reference is dropped here, when the news is handled.
            Said::Offered(name, public, _unheard) => self.offered(key, name, public),
            Said::Withdrawn(name, _unheard) => {
                let known = self.gateways.get_mut(&key).is_some_and(|gateway| gateway.offers.remove(&name).is_some());
                if let Some(place) = self.setup.store.place(&name).filter(|_| known) {
                    self.hold(key, place, false);
                }
            }
            Said::Wrong(name, _unheard) => {
                self.setup.sidecores[0].send(Reactor::count_wrong_answer);
                self.tell_wrong(key, &name);
            }
            Said::Ended(why, fault) => {
                if fault == Fault::Wrong {
                    self.setup.sidecores[0].send(Reactor::count_wrong_answer);
                }
                if let Some(gateway) = self.gateways.remove(&key) {
                    self.tell_lost(key, &gateway.device.name, &why);
                }
                self.disconnect(key);
            }
        }
    }

    fn tell_lost(&mut self, key: LaneKey, device: &str, why: &str) {
        let client = self.connections.get(&key).map_or((u32::MAX, 0), |connection| connection.client);
        if let Some(suppressed) = self.complains(Complaint::Gateway, client.0) {
            events::gateway_lost(device, client, why, suppressed);
        }
    }

    fn tell_wrong(&mut self, key: LaneKey, name: &str) {
        let client = self.connections.get(&key).map_or((u32::MAX, 0), |connection| connection.client);
        let Some(suppressed) = self.complains(Complaint::WrongAnswer, client.0) else { return };
        if let Some(gateway) = self.gateways.get(&key) {
            events::gateway_wrong(&gateway.device.name, client, name, suppressed);
        }
    }

    fn offered(&mut self, key: LaneKey, name: String, public: Vec<u8>) {
        let place = self.setup.store.offered(&name, &public);
        let exists = self.setup.store.place(&name).is_some();
        let Some(gateway) = self.gateways.get_mut(&key) else { return };
        if place.is_none() && exists && !gateway.doubted {
            gateway.doubted = true;
            events::gateway_doubted(&gateway.device.name, &name);
        }
        if gateway.offers.len() >= MAX_OFFERS && !gateway.offers.contains_key(&name) {
            return;
        }
        if let Some(known) = self.setup.store.public(&name) {
            gateway.control.know(&name, Some(known));
        }
        gateway.offers.insert(name, public);
        if let Some(place) = place {
            self.hold(key, place, true);
        }
    }

    pub(super) fn offers_changed(&self, name: &str) {
        let public = self.setup.store.public(name);
        self.gateways.values().for_each(|gateway| gateway.control.know(name, public));
        let Some(place) = self.setup.store.place(name) else { return };
        for (key, gateway) in &self.gateways {
            let offer = gateway.offers.get(name);
            let holds = offer.is_some_and(|public| self.setup.store.offered(name, public) == Some(place));
            self.hold(*key, place, holds);
        }
    }

    /// The key of this place is gone: the place may get another key.
    pub(super) fn forget_offers(&self, place: u16) {
        self.gateways.keys().for_each(|key| self.hold(*key, place, false));
    }

    fn hold(&self, gateway: LaneKey, place: u16, holds: bool) {
        for sidecore in &self.setup.sidecores {
            sidecore.send(move |reactor| reactor.hold(gateway, place, holds));
        }
    }
}
