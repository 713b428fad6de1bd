//! How a node is told to leave: first it may finish what it has, then it must end.

use crate::signals::Signals;
use std::future::Future;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Two waits, from now on. The first ends with the first signal. The second must be waited for beside it and ends, with why, at
/// the second signal or so long after the first.
///
/// # Errors
/// Signals cannot be heard.
pub(super) fn at_signals(
    patience: Duration,
) -> Result<(impl Future<Output = ()>, impl Future<Output = &'static str>), String> {
    let mut signals = Signals::new()?;
    let (wish, wished) = oneshot::channel();
    let order = async move {
        signals.next().await;
        // Where nobody hears it, the node has ended.
        let _ = wish.send(());
        match timeout(patience, signals.next()).await {
            Ok(()) => "ended at the second signal: what ran here is done elsewhere",
            Err(_) => "ended: what ran here took too long, and is done elsewhere",
        }
    };
    Ok((async { wished.await.unwrap_or_default() }, order))
}
