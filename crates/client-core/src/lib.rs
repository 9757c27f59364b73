//! A client's decisions: location cache, reads, writes, appends, retry
