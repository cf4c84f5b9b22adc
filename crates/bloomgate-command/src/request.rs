//! A command with its arguments checked and typed, borrowed from the bytes it came in.
//!
//! Lists of items are borrowed as they stand among the words: a request of a thousand items allocates nothing.

use std::time::Duration;

use bloomgate::{Address, Algorithm, Kind, WhenFull};

use crate::spec::Spec;

/// One command. Fields have the names of the syntax lines.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // The fields are the words of each command's syntax, which the table documents.
pub enum Request<'a> {
    // ---- BF
    /// `expansion` 0 is a filter that never grows; none is the server's default. The rate is 0.25 at most.
    BfReserve {
        key: &'a [u8],
        rate: f64,
        capacity: u64,
        expansion: Option<u32>,
    },
    BfAdd {
        key: &'a [u8],
        item: &'a [u8],
    },
    BfMadd {
        key: &'a [u8],
        items: &'a [&'a [u8]],
    },
    /// What is none is the server's default.
    BfInsert {
        key: &'a [u8],
        capacity: Option<u64>,
        rate: Option<f64>,
        expansion: Option<u32>,
        create: bool,
        items: &'a [&'a [u8]],
    },
    BfExists {
        key: &'a [u8],
        item: &'a [u8],
    },
    BfMexists {
        key: &'a [u8],
        items: &'a [&'a [u8]],
    },
    BfCard {
        key: &'a [u8],
    },
    BfInfo {
        key: &'a [u8],
        field: Option<BfField>,
    },
    /// Any number: past the end (or below 0) there is nothing.
    BfScandump {
        key: &'a [u8],
        iterator: i64,
    },
    /// Any number: whether 1 is a header and others are right depends on the key.
    BfLoadchunk {
        key: &'a [u8],
        iterator: i64,
        data: &'a [u8],
    },
    BfDebug {
        key: &'a [u8],
    },

    // ---- CF
    /// What is none is the server's default; `expansion` 0 never grows. `width` is ours.
    CfReserve {
        key: &'a [u8],
        capacity: u64,
        bucket_size: Option<u8>,
        max_iterations: Option<u16>,
        expansion: Option<u32>,
        width: Option<Width>,
    },
    CfAdd {
        key: &'a [u8],
        item: &'a [u8],
    },
    CfAddnx {
        key: &'a [u8],
        item: &'a [u8],
    },
    CfInsert {
        key: &'a [u8],
        capacity: Option<u64>,
        create: bool,
        items: &'a [&'a [u8]],
    },
    CfInsertnx {
        key: &'a [u8],
        capacity: Option<u64>,
        create: bool,
        items: &'a [&'a [u8]],
    },
    CfExists {
        key: &'a [u8],
        item: &'a [u8],
    },
    CfMexists {
        key: &'a [u8],
        items: &'a [&'a [u8]],
    },
    CfCount {
        key: &'a [u8],
        item: &'a [u8],
    },
    CfDel {
        key: &'a [u8],
        item: &'a [u8],
    },
    CfCompact {
        key: &'a [u8],
    },
    CfInfo {
        key: &'a [u8],
    },
    /// 0 or more.
    CfScandump {
        key: &'a [u8],
        position: i64,
    },
    /// 1 or more: 1 is the header.
    CfLoadchunk {
        key: &'a [u8],
        position: i64,
        data: &'a [u8],
    },
    CfDebug {
        key: &'a [u8],
    },

    // ---- BG
    BgCreate {
        name: &'a [u8],
        create: Create<'a>,
    },
    BgAdd {
        name: &'a [u8],
        items: &'a [&'a [u8]],
    },
    BgExists {
        name: &'a [u8],
        items: &'a [&'a [u8]],
    },
    BgCount {
        name: &'a [u8],
        items: &'a [&'a [u8]],
    },
    /// The same `request` again changes nothing and answers alike.
    BgRemove {
        name: &'a [u8],
        request: Option<&'a [u8]>,
        items: &'a [&'a [u8]],
    },
    BgInfo {
        name: &'a [u8],
        field: Option<&'a str>,
    },
    BgEstimate {
        name: &'a [u8],
    },
    BgAudit {
        name: &'a [u8],
        reset: bool,
    },
    BgDigest {
        name: &'a [u8],
    },
    BgDump {
        name: &'a [u8],
    },
    BgDelta {
        name: &'a [u8],
        base: DeltaBase,
    },
    BgMerge {
        destination: &'a [u8],
        sources: &'a [&'a [u8]],
    },
    BgIntersect {
        destination: &'a [u8],
        left: &'a [u8],
        right: &'a [u8],
    },
    BgFold {
        name: &'a [u8],
        to: FoldTo,
    },
    BgCopy {
        source: &'a [u8],
        destination: &'a [u8],
        replace: bool,
    },
    BgSwap {
        left: &'a [u8],
        right: &'a [u8],
    },
    /// `file` is relative, without `..`.
    BgBuild {
        name: &'a [u8],
        file: &'a str,
        kind: Option<Kind>,
        capacity: Option<u64>,
        rate: Option<f64>,
        contract: Option<&'a str>,
        like: Option<&'a [u8]>,
        replace: bool,
    },
    BgRekey {
        name: &'a [u8],
        step: RekeyStep,
    },
    BgFeed {
        name: &'a [u8],
        items: &'a [&'a [u8]],
    },
    /// Without a name, of all filters: so many of the worst.
    BgStats {
        name: Option<&'a [u8]>,
        count: Option<u64>,
    },
    BgFeedback {
        name: &'a [u8],
        items: &'a [&'a [u8]],
    },
    BgNamespaceSet {
        name: &'a [u8],
        change: NamespaceChange<'a>,
    },
    BgNamespaceDel {
        name: &'a [u8],
    },
    BgNamespaceList,
    BgNamespaceInfo {
        name: &'a [u8],
    },
    BgSecrets,
    BgBackup {
        folder: &'a str,
    },
    /// The command asked for, or all of `BG.*`.
    BgHelp {
        command: Option<&'static Spec>,
    },

    // ---- Names
    Type {
        key: &'a [u8],
    },
    Exists {
        keys: &'a [&'a [u8]],
    },
    Del {
        keys: &'a [&'a [u8]],
    },
    Unlink {
        keys: &'a [&'a [u8]],
    },
    Touch {
        keys: &'a [&'a [u8]],
    },
    Keys {
        pattern: &'a [u8],
    },
    Scan {
        cursor: u64,
        pattern: Option<&'a [u8]>,
        count: u64,
        kind: Option<&'a [u8]>,
    },
    Randomkey,
    /// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`, in milliseconds: from now, or since 1970.
    Expire {
        key: &'a [u8],
        milliseconds: i64,
        from_now: bool,
        /// Which of the four it is, for an error.
        command: &'static str,
        only: ExpireOnly,
    },
    Ttl {
        key: &'a [u8],
    },
    Pttl {
        key: &'a [u8],
    },
    Expiretime {
        key: &'a [u8],
    },
    Pexpiretime {
        key: &'a [u8],
    },
    Persist {
        key: &'a [u8],
    },
    Rename {
        key: &'a [u8],
        newkey: &'a [u8],
    },
    Renamenx {
        key: &'a [u8],
        newkey: &'a [u8],
    },
    Copy {
        source: &'a [u8],
        destination: &'a [u8],
        db: Option<u64>,
        replace: bool,
    },
    ObjectEncoding {
        key: &'a [u8],
    },
    ObjectFreq {
        key: &'a [u8],
    },
    ObjectIdletime {
        key: &'a [u8],
    },
    ObjectRefcount {
        key: &'a [u8],
    },

    // ---- Connection
    /// Without a version the protocol stays.
    Hello {
        version: Option<u8>,
        auth: Option<(&'a [u8], &'a [u8])>,
        name: Option<&'a [u8]>,
    },
    Auth {
        user: Option<&'a [u8]>,
        password: &'a [u8],
    },
    Ping {
        message: Option<&'a [u8]>,
    },
    Echo {
        message: &'a [u8],
    },
    Select {
        index: u64,
    },
    Reset,
    Quit,
    ClientId,
    ClientInfo,
    /// Empty `ids` are all clients.
    ClientList {
        kind: Option<&'a [u8]>,
        ids: &'a [&'a [u8]],
    },
    ClientGetname,
    ClientSetname {
        name: &'a [u8],
    },
    ClientSetinfo {
        attribute: ClientAttribute,
        value: &'a [u8],
    },
    ClientKill(ClientKill<'a>),
    ClientNoEvict {
        on: bool,
    },
    ClientNoTouch {
        on: bool,
    },
    ClientReply(ClientReply),
    /// Tracking can only be off.
    ClientTrackingOff,
    ClientPause {
        milliseconds: u64,
        writes_only: bool,
    },
    ClientUnpause,

    // ---- Transactions
    Multi,
    Exec,
    Discard,
    Watch {
        keys: &'a [&'a [u8]],
    },
    Unwatch,

    // ---- Server
    Command(CommandQuery<'a>),
    Info {
        sections: &'a [&'a [u8]],
    },
    ConfigGet {
        patterns: &'a [&'a [u8]],
    },
    /// Names and values in turn.
    ConfigSet {
        pairs: &'a [&'a [u8]],
    },
    ConfigResetstat,
    ConfigRewrite,
    Dbsize,
    Flushall,
    Flushdb,
    MemoryUsage {
        key: &'a [u8],
    },
    MemoryDoctor,
    MemoryStats,
    ModuleList,
    Save,
    Bgsave,
    Lastsave,
    Shutdown(Shutdown),
    AclWhoami,
    AclList,
    AclUsers,
    AclCat {
        category: Option<&'a [u8]>,
    },
    AclGetuser {
        user: &'a [u8],
    },
    AclSetuser {
        user: &'a [u8],
        rules: &'a [&'a [u8]],
    },
    AclDeluser {
        users: &'a [&'a [u8]],
    },
    /// A command and its arguments, that are not run.
    AclDryrun {
        user: &'a [u8],
        words: &'a [&'a [u8]],
    },
    AclGenpass {
        bits: u16,
    },
    AclLog(AclLog),
    AclLoad,
    AclSave,
    /// Negative is all.
    SlowlogGet {
        count: i64,
    },
    SlowlogLen,
    SlowlogReset,
    LatencyLatest,
    LatencyHistory {
        event: &'a [u8],
    },
    LatencyReset {
        events: &'a [&'a [u8]],
    },
    LatencyDoctor,
    LatencyHistogram {
        commands: &'a [&'a [u8]],
    },
    Time,
    Wait {
        replicas: u64,
        milliseconds: u64,
    },
    Role,
    /// `HELP` of a container.
    Help(&'static Spec),
}

impl<'a> Request<'a> {
    /// The items or names at its end, if it can be done piece by piece: each has an answer of its own, or is counted.
    #[must_use]
    pub fn parts(&self) -> Option<&'a [&'a [u8]]> {
        match *self {
            Request::BfMadd { items, .. }
            | Request::BfInsert { items, .. }
            | Request::BfMexists { items, .. }
            | Request::CfInsert { items, .. }
            | Request::CfInsertnx { items, .. }
            | Request::CfMexists { items, .. }
            | Request::BgAdd { items, .. }
            | Request::BgExists { items, .. }
            | Request::BgCount { items, .. }
            // The answer to a request with an id is kept as one.
            | Request::BgRemove { request: None, items, .. }
            | Request::BgFeed { items, .. }
            | Request::BgFeedback { items, .. } => Some(items),
            Request::Exists { keys } | Request::Touch { keys } | Request::Del { keys } | Request::Unlink { keys } => {
                Some(keys)
            }
            _ => None,
        }
    }
}

impl Request<'_> {
    /// Filters for up to so many items are made within a turn: about 1.3 MB and 0.1 ms.
    pub const SMALL: u64 = 1 << 20;

    /// Whether a request of a heavy command is short all the same.
    #[must_use]
    pub fn is_small(&self) -> bool {
        match *self {
            Request::BfReserve { capacity, .. } | Request::CfReserve { capacity, .. } => capacity <= Self::SMALL,
            Request::BfInsert { capacity, .. }
            | Request::CfInsert { capacity, .. }
            | Request::CfInsertnx { capacity, .. } => capacity.is_none_or(|capacity| capacity <= Self::SMALL),
            Request::BgCreate { create: Create { capacity: Some(capacity), bytes: None, .. }, .. } => {
                capacity <= Self::SMALL
            }
            Request::Shutdown(how) => how.save != Some(true),
            _ => false,
        }
    }

    /// How many items it asks for or changes.
    #[must_use]
    pub fn items(&self) -> usize {
        self.with_items(|items| items.len())
    }

    /// What is made of the items that it asks for or changes.
    pub fn with_items<T>(&self, work: impl FnOnce(&[&[u8]]) -> T) -> T {
        let items = match *self {
            Request::BfAdd { ref item, .. }
            | Request::BfExists { ref item, .. }
            | Request::CfAdd { ref item, .. }
            | Request::CfAddnx { ref item, .. }
            | Request::CfExists { ref item, .. }
            | Request::CfCount { ref item, .. }
            | Request::CfDel { ref item, .. } => std::slice::from_ref(item),
            Request::BfMadd { items, .. }
            | Request::BfInsert { items, .. }
            | Request::BfMexists { items, .. }
            | Request::CfInsert { items, .. }
            | Request::CfInsertnx { items, .. }
            | Request::CfMexists { items, .. }
            | Request::BgAdd { items, .. }
            | Request::BgExists { items, .. }
            | Request::BgCount { items, .. }
            | Request::BgRemove { items, .. }
            | Request::BgFeed { items, .. }
            | Request::BgFeedback { items, .. } => items,
            _ => &[],
        };
        work(items)
    }

    /// Whether a filter that has the name already goes for another one.
    #[inline]
    #[must_use]
    pub fn replaces(&self) -> bool {
        matches!(
            self,
            Request::Copy { replace: true, .. }
                | Request::BgCopy { replace: true, .. }
                | Request::BgBuild { replace: true, .. }
                | Request::BgRekey { step: RekeyStep::Finish { .. }, .. }
        )
    }
}

/// What `BG.NAMESPACE SET` says; what is none stays, and a limit of 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamespaceChange<'a> {
    /// What the names of its filters begin with.
    pub prefix: Option<&'a str>,
    /// Bytes its filters may take together.
    pub max_memory: Option<u64>,
    /// How many filters it may have.
    pub max_filters: Option<u64>,
    /// How many items may be added and asked for in a second.
    pub items_per_second: Option<u64>,
}

/// What `ACL LOG` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclLog {
    /// So many of the newest entries.
    Newest(u64),
    /// To forget them.
    Reset,
}

/// A field of `BF.INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BfField {
    Capacity,
    Size,
    Filters,
    Items,
    Expansion,
}

impl BfField {
    /// All, in the order of `BF.INFO`.
    pub const ALL: [BfField; 5] =
        [BfField::Capacity, BfField::Size, BfField::Filters, BfField::Items, BfField::Expansion];

    /// The name in the reply.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            BfField::Capacity => "Capacity",
            BfField::Size => "Size",
            BfField::Filters => "Number of filters",
            BfField::Items => "Number of items inserted",
            BfField::Expansion => "Expansion rate",
        }
    }

    /// The word in the command.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            BfField::Capacity => "CAPACITY",
            BfField::Size => "SIZE",
            BfField::Filters => "FILTERS",
            BfField::Items => "ITEMS",
            BfField::Expansion => "EXPANSION",
        }
    }
}

/// How wide the fingerprints of a cuckoo filter are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Width {
    /// As wide as this rate needs.
    Rate(f64),
    /// So many bits.
    Bits(u32),
}

/// What `BG.CREATE` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Create<'a> {
    /// The kind; none only with `like`.
    pub kind: Option<Kind>,
    /// For so many items.
    pub capacity: Option<u64>,
    /// At this rate.
    pub rate: Option<f64>,
    /// In so many bytes.
    pub bytes: Option<u64>,
    /// The factor from stage to stage.
    pub growth: Option<f64>,
    /// What an add does when it is full.
    pub on_full: Option<WhenFull>,
    /// How long an item counts.
    pub window: Option<Duration>,
    /// Into how many parts the window is divided.
    pub generations: Option<u32>,
    /// The bits of a fingerprint.
    pub fingerprint: Option<u32>,
    /// The bits of a counter: 4, 8 or 16.
    pub counters: Option<u32>,
    /// The hash; the server's default is keyed.
    pub hash: Option<Algorithm>,
    /// The seed of a hash without a secret.
    pub seed: Option<u64>,
    /// The contract whose secret is taken.
    pub contract: Option<&'a str>,
    /// The filter whose shape and contract are taken.
    pub like: Option<&'a [u8]>,
}

/// What a filter is folded to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FoldTo {
    /// This many times smaller.
    Factor(u32),
    /// As small as keeps this rate for the items that are in.
    Rate(f64),
}

/// What a delta starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaBase {
    /// The file of this address.
    Address(Address),
    /// The filter's file as of this version, as BG.INFO tells it.
    Version(u64),
}

/// A step of a change of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RekeyStep {
    Start,
    Status,
    Finish {
        /// Whatever was fed.
        force: bool,
    },
    Abort,
}

/// When an expiry is set. All false is always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpireOnly {
    /// If there is none.
    pub none_yet: bool,
    /// If there is one.
    pub if_set: bool,
    /// If it becomes later; none is never.
    pub later: bool,
    /// If it becomes earlier; none is never.
    pub earlier: bool,
}

/// What `CLIENT SETINFO` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClientAttribute {
    LibName,
    LibVer,
}

/// Whom `CLIENT KILL` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKill<'a> {
    /// The old form: the one client with this address, an error if there is none; the answer is `OK`.
    Address(&'a [u8]),
    /// All that match; the answer is their number.
    Matching {
        /// With this number.
        id: Option<i64>,
        /// From this address.
        address: Option<&'a [u8]>,
        /// To this address of the server.
        local: Option<&'a [u8]>,
        /// Logged in as.
        user: Option<&'a [u8]>,
        /// Not the one that asks.
        skip_me: bool,
    },
}

/// What `CLIENT REPLY` switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClientReply {
    On,
    Off,
    Skip,
}

/// What `COMMAND` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandQuery<'a> {
    /// Every command.
    All,
    /// How many there are.
    Count,
    /// Summaries of these, or of all.
    Docs(&'a [&'a [u8]]),
    /// The entries of these, or of all.
    Info(&'a [&'a [u8]]),
    /// The names that pass.
    List(CommandFilter<'a>),
    /// The filters that a command names.
    GetKeys(&'a [&'a [u8]]),
}

/// Which names `COMMAND LIST` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFilter<'a> {
    /// All.
    None,
    /// Those of a module: all of `bf` are this server's own, so there are none.
    Module(&'a [u8]),
    /// Those of a category.
    Category(&'a [u8]),
    /// Those that match.
    Pattern(&'a [u8]),
}

/// How to shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shutdown {
    /// With a snapshot or without; none is as configured.
    pub save: Option<bool>,
    /// Without waiting.
    pub now: bool,
    /// Even if saving fails.
    pub force: bool,
    /// Do not, after all.
    pub abort: bool,
}
