//! A connection that has left HTTP: bytes go both ways until one side ends, or both have been silent for too long.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bloomgate_http::Peer;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::oneshot;

/// How much is read at once, each way.
const PIECE: usize = 16 << 10;

/// Joins both sides once they have left HTTP, in a task of its own.
pub(super) fn begin(client: OnUpgrade, upstream: OnUpgrade, peer: Peer, silence: Duration) {
    let (tell, told) = oneshot::channel();
    let task = tokio::spawn(async move {
        // Counted as a connection until the end of this task.
        let _taken = told.await;
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        // However it ends, both sides are closed.
        _ = join(TokioIo::new(client), TokioIo::new(upstream), silence).await;
    });
    _ = tell.send(peer.take_over(task.abort_handle()));
}

async fn join(client: TokioIo<Upgraded>, upstream: TokioIo<Upgraded>, silence: Duration) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (from_client, to_client) = tokio::io::split(client);
    let (from_upstream, to_upstream) = tokio::io::split(upstream);
    let there = pump(from_client, to_upstream, silence, &moved);
    let back = pump(from_upstream, to_client, silence, &moved);
    tokio::try_join!(there, back).map(|_| ())
}

/// One way. An end is passed on, and the other way may go on; silence on both ends everything.
async fn pump(
    mut from: ReadHalf<TokioIo<Upgraded>>,
    mut to: WriteHalf<TokioIo<Upgraded>>,
    silence: Duration,
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut seen = moved.load(Relaxed);
    loop {
        let read = match tokio::time::timeout(silence, from.read(&mut piece)).await {
            Ok(read) => read?,
            Err(_) if moved.load(Relaxed) != seen => {
                seen = moved.load(Relaxed);
                continue;
            }
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        if read == 0 {
            return to.shutdown().await;
        }
        moved.fetch_add(1, Relaxed);
        // Who does not take what it is sent is as good as silent.
        let sent = async {
            to.write_all(&piece[..read]).await?;
            to.flush().await
        };
        tokio::time::timeout(silence, sent).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    }
}
