//! A web server whose private key is in the service.
//!
//! ```sh
//! sidecore keys generate www --kind p-256
//! sidecore keys cert www fullchain.pem
//! cargo run -p sidecore-rustls --example https -- www 127.0.0.1:8443
//! ```

use rustls::crypto::aws_lc_rs;
use rustls::server::ResolvesServerCert;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sidecore_rustls::Options;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nit works\n";
/// Limit of a silent peer.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::default();
    let (certified, address): (Arc<dyn ResolvesServerCert>, _) = match &arguments[..] {
        [name, address] => (Arc::new(SingleCertAndKey::from(sidecore_rustls::stored(&options, name)?)), address),
        // It goes on with the certificates and keys of renewals.
        [name, address, file] => {
            (sidecore_rustls::follow(&options, name, file, |error| eprintln!("{error}"))?, address)
        }
        _ => return Err("usage: https KEY ADDRESS [CHAIN.pem]".into()),
    };
    let server = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let server = server.with_safe_default_protocol_versions()?.with_no_client_auth();
    let server = Arc::new(server.with_cert_resolver(certified));
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for connection in listener.incoming() {
        let (connection, server) = (connection?, Arc::clone(&server));
        thread::spawn(move || {
            if let Err(error) = answer(connection, server) {
                // A failed signature names its reason and the remedy here.
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

fn answer(connection: TcpStream, server: Arc<ServerConfig>) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    let tls = ServerConnection::new(server).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(tls, connection);
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    stream.write_all(ANSWER)?;
    stream.conn.send_close_notify();
    stream.flush()
}
