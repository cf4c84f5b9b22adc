//! SCANDUMP and LOADCHUNK through a conversation: copies of our filters, dumps of RedisBloom, and bytes from strangers.

mod fixture;
mod hostile;
mod ours;
mod talk;
mod theirs;
