//! `bloomgate-bench bare-proxy ADDRESS UPSTREAM`: the least that a streaming proxy of hyper can do, beside which the gate's is
//! measured. The same client with its pool of connections, HTTP/1.1 on both sides; no limits, no timeouts, no headers added.

use crate::args::{Args, Fault};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::uri::{Authority, Scheme};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// Serves until it is killed.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let mut word = |what: &str| args.word().ok_or_else(|| Fault(format!("bare-proxy needs {what}")));
    let (address, upstream) = (word("an address")?, word("an upstream")?);
    let upstream: Authority = upstream.parse().map_err(|error| Fault(format!("{upstream}: {error}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&address).await?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
        loop {
            let (stream, _) = listener.accept().await?;
            let _ = stream.set_nodelay(true);
            let (client, upstream) = (client.clone(), upstream.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| pass(client.clone(), upstream.clone(), request));
                // Whoever goes away ends its connection.
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

async fn pass(
    client: Client<HttpConnector, Incoming>,
    upstream: Authority,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    let mut parts = request.uri().clone().into_parts();
    (parts.scheme, parts.authority) = (Some(Scheme::HTTP), Some(upstream));
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request.headers_mut().remove(CONNECTION);
    let mut response = client.request(request).await?;
    response.headers_mut().remove(CONNECTION);
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
