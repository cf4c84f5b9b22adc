//! Filters of other systems, read and written in their own forms, answering with their own hashes.
