//! The real world behind the seam: threads, epoll, files
