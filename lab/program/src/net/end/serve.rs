//! Main function of the other end's process: it obeys orders.

use super::{Done, Order, send};
use crate::error::LabError;
use crate::net::links::Links;
use crate::net::tune::location::Here;
use crate::net::tune::setting::by_name;
use crate::net::{peer, space};
use serde_json::Value;
use std::io::{self, BufRead};
use std::net::TcpListener;
use std::thread;

pub(crate) fn run() -> Result<(), LabError> {
    let wrong = |error: io::Error| LabError::failed("the other end lost its orders", error);
    let mut answers = io::stdout().lock();
    let own = space::enter_own().and_then(|()| Links::here());
    send(&mut answers, &own.as_ref().map(|_| ()).map_err(ToString::to_string)).map_err(wrong)?;
    let links = own?;
    let mut tuned = None;
    for line in io::stdin().lock().lines() {
        let order = serde_json::from_str(&line.map_err(wrong)?).map_err(|error| error.to_string());
        let done: Done = order.and_then(|order| obey(&links, &mut tuned, order).map_err(|error| error.to_string()));
        send(&mut answers, &done).map_err(wrong)?;
    }
    Ok(())
}

fn obey(links: &Links, tuned: &mut Option<Here>, order: Order) -> Result<Value, LabError> {
    match order {
        Order::Take { name, address, bits } => links.take(&name, address, bits).map(|()| Value::Null),
        Order::Listen { at } => {
            let listener =
                TcpListener::bind(at).map_err(|error| LabError::failed(format!("cannot listen at {at}"), error))?;
            thread::spawn(move || peer::serve(&listener));
            Ok(Value::Null)
        }
        Order::Read { interface, setting } => here(tuned, &interface)?.read(by_name(&setting)?).map(Value::String),
        Order::Write { interface, setting, value } => {
            here(tuned, &interface)?.write(by_name(&setting)?, &value).map(|()| Value::Null)
        }
    }
}

/// This process changes the settings of one interface only, the first one named.
fn here<'h>(tuned: &'h mut Option<Here>, interface: &str) -> Result<&'h mut Here, LabError> {
    let own = match tuned.take() {
        Some(here) => here,
        None => Here::of(interface)?,
    };
    Ok(tuned.insert(own))
}
