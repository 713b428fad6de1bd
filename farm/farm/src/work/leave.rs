//! The end of a node: the first signal lets it complete its events, the second ends it.

use crate::error::FarmError;
use sidecore_nats::Signals;
use std::future::Future;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Two futures. The first ends with the first signal. The second must be polled together with it, and ends at the
/// second signal or `patience` after the first, with the reason.
pub(super) fn at_signals(
    patience: Duration,
) -> Result<(impl Future<Output = ()>, impl Future<Output = &'static str>), FarmError> {
    let mut signals = Signals::new()?;
    let (wish, wished) = oneshot::channel();
    let order = async move {
        signals.next().await;
        // Without a receiver the node has ended.
        let _ = wish.send(());
        match timeout(patience, signals.next()).await {
            Ok(()) => "ended at the second signal: what ran here is done elsewhere",
            Err(_) => "ended: what ran here took too long, and is done elsewhere",
        }
    };
    Ok((async { wished.await.unwrap_or_default() }, order))
}
