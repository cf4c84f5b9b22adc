//! Our own server of filters, run in this process, and a relay in front of it that tests hold up or lead elsewhere.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use bloomgate_server::{Settings, serve};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A server that stops with the test.
pub struct FilterServer {
    pub address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl FilterServer {
    /// One that keeps nothing.
    pub fn start() -> Self {
        Self::start_with(Settings::default())
    }

    /// One that keeps its filters in a folder, on a port.
    pub fn keeping(folder: &Path, port: u16) -> Self {
        let resp = SocketAddr::from(([127, 0, 0, 1], port));
        Self::run(Settings { resp: Some(resp), data: Some(folder.to_owned()), threads: 2, ..Settings::default() })
    }

    /// One with other settings, on any port.
    pub fn start_with(settings: Settings) -> Self {
        Self::run(Settings { resp: Some(SocketAddr::from(([127, 0, 0, 1], 0))), threads: 2, ..settings })
    }

    fn run(settings: Settings) -> Self {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            serve(&settings, |ready| tell.send(ready.address).unwrap()).unwrap();
        });
        let address = told.recv().expect("the server does not start");
        Self { address, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// A client of its own for a test.
    pub fn client(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Ends it, after what it acknowledged is on the disk.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It ends without an answer.
            let _ = redis::cmd("SHUTDOWN").exec(&mut self.client());
            thread.join().unwrap();
        }
    }
}

impl Drop for FilterServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes connections and passes their bytes on to a server.
pub struct Relay {
    pub address: SocketAddr,
    orders: Arc<watch::Sender<Orders>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy)]
struct Orders {
    to: SocketAddr,
    is_held: bool,
    /// Rises when every connection to a server is to be made anew.
    turn: u32,
    /// Rises when connections are to lead nowhere.
    strandings: u32,
}

impl Relay {
    pub async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let orders = Arc::new(watch::channel(Orders { to, is_held: false, turn: 0, strandings: 0 }).0);
        let given = orders.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass_on(client, given.subscribe()));
            }
        });
        Self { address, orders, task }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Passes nothing on, and takes connections still.
    pub fn hold(&self) {
        self.orders.send_modify(|orders| orders.is_held = true);
    }

    /// Passes on what has come meanwhile.
    pub fn go_on(&self) {
        self.orders.send_modify(|orders| orders.is_held = false);
    }

    /// Those who are connected get nothing through any more, and are not told, as when a cable is cut; new ones do.
    pub fn strand(&self) {
        self.orders.send_modify(|orders| orders.strandings += 1);
    }

    /// Leads every connection elsewhere, without its client noticing.
    pub fn lead_to(&self, to: SocketAddr) {
        self.orders.send_modify(|orders| *orders = Orders { to, is_held: false, turn: orders.turn + 1, ..*orders });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(mut client: TcpStream, mut orders: watch::Receiver<Orders>) {
    client.set_nodelay(true).unwrap();
    let strandings = orders.borrow().strandings;
    loop {
        let Ok(now) = orders.wait_for(|orders| !orders.is_held).await.map(|orders| *orders) else { return };
        let Ok(mut server) = TcpStream::connect(now.to).await else { return };
        server.set_nodelay(true).unwrap();
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let (mut turned, mut stranded) = (orders.clone(), orders.clone());
        tokio::select! {
            _ = one_way(&mut from_client, &mut to_server, orders.clone()) => return,
            // The server is gone: its clients learn nothing of it until they are led to another one.
            () = async { one_way(&mut from_server, &mut to_client, orders.clone()).await; pending().await } => {}
            // For ever: the client learns nothing of it.
            _ = async { stranded.wait_for(|orders| orders.strandings != strandings).await.is_ok() } => pending().await,
            is_over = async { turned.wait_for(|orders| orders.turn != now.turn).await.is_err() } => if is_over { return },
        }
    }
}

/// Passes bytes on in one direction until there are no more.
async fn one_way(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut orders: watch::Receiver<Orders>,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if orders.wait_for(|orders| !orders.is_held).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
