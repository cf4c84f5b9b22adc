//! How many files the process may have open: connections are files too.
//!
//! Most systems let a process have 1,024 and allow it to ask for far more. When none is left, nobody can connect, and the log and
//! snapshots cannot begin a file: so all that is allowed is asked for, and connections are never let have all of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for what is no connection: the log, snapshots, images, sockets that listen, pipes of the threads.
const KEPT: u64 = 256;

/// Asks for as many as the system allows.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // One that is not allowed what it is told it may have goes on with what it has.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Connections that there may be in all, as the limit is now.
fn connections() -> u64 {
    left(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// Of so many files, those that may be connections.
fn left(files: u64) -> u64 {
    files - KEPT.min(files / 2)
}

/// The most that max-clients may be: where there is HTTP, a quarter of all connections is left to it.
#[must_use]
pub fn most_clients(with_http: bool) -> usize {
    share(connections(), with_http)
}

fn share(connections: u64, with_http: bool) -> usize {
    let clients = if with_http { connections / 4 * 3 } else { connections };
    usize::try_from(clients).unwrap_or(usize::MAX).max(1)
}

/// Connections that HTTP may have beside so many clients: as many, if there are.
#[must_use]
pub fn for_http(max_clients: usize) -> usize {
    beside(connections(), max_clients)
}

fn beside(connections: u64, max_clients: usize) -> usize {
    usize::try_from(connections).unwrap_or(usize::MAX).saturating_sub(max_clients).min(max_clients).max(1)
}

/// What is to be said where fewer clients are let in than the settings say.
#[must_use]
pub fn worry(max_clients: usize, with_http: bool) -> Option<String> {
    let most = most_clients(with_http);
    (max_clients > most).then(|| {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        format!(
            "max-clients is {max_clients}, and the process may have {files} files open: {most} clients are let in at most. Raise \
             that limit (LimitNOFILE= of systemd, --ulimit nofile= of a container, ulimit -n), or lower max-clients"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_http_leave_files_for_the_disk() {
        for files in [8, 64, 1_024, 4_096, 20_000, 1 << 20] {
            let connections = left(files);
            assert!(files - connections >= (files / 2).min(256));
            for wanted in [1, 100, 10_000, 1 << 20] {
                let clients = wanted.min(share(connections, true));
                let http = beside(connections, clients);
                assert!((clients + http) as u64 <= connections, "{files} files, {wanted} clients");
                assert!(clients > 0 && http > 0 && http <= clients);
                assert!(wanted.min(share(connections, false)) as u64 <= connections);
            }
        }
        assert_eq!(share(left(1_024), false), 768);
        assert_eq!((share(left(1_024), true), beside(left(1_024), 576)), (576, 192));
        assert_eq!((share(left(20_000), true), beside(left(20_000), 10_000)), (14_808, 9_744));
        assert!(share(left(u64::MAX), true) > 1 << 40);
    }
}
