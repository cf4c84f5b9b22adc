//! The HTTP stack over real sockets.
#![forbid(unsafe_code)]

mod access;
mod client;
mod exposition;
mod limits;
mod metrics;
mod secure;
mod webhook;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bloomgate_http::{Options, Served, body, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An answer that no socket's buffers hold.
const LARGE: usize = 32 << 20;

/// A service on a free port of this machine.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Served>,
}

impl Running {
    /// The service that most tests ask.
    async fn start(options: Options) -> Self {
        Self::with(router(options.limits.body_bytes), options).await
    }

    async fn with(router: Router, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        let served = tokio::spawn(serve(listener, router, options, shutdown));
        Self { address, stop, served }
    }

    /// Tells it to stop and waits until it has.
    async fn stop(self) -> Served {
        self.stop.send(()).unwrap();
        self.served.await.unwrap()
    }
}

/// What the tests ask for.
fn router(most: usize) -> Router {
    let long = || async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        "worth the wait"
    };
    let endless = || async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        "nobody waits so long"
    };
    let length = move |request: Request| async move {
        match body::read(&mut request.into_body(), most, Duration::from_millis(400)).await {
            Ok(bytes) => bytes.len().to_string().into_response(),
            Err(problem) => problem.into_response(),
        }
    };
    let large = || async { Response::new(Body::from(vec![b'x'; LARGE])) };
    Router::new()
        .route("/hello", get(|| async { "hello" }))
        .route("/long", get(long))
        .route("/endless", get(endless))
        .route("/large", get(large))
        .route("/length", post(length))
}
