//! What other threads hand to the loop: commands, finished disk jobs, a word to stop.
//!
//! - M1: whoever puts something in either is seen by the loop before it sleeps, or wakes it; what
//!   is left without hurry waits for another reason to wake, or for [`LEFT_MAX`] of its kind.
//! - M2: a closed mailbox takes nothing, and what was in it is dropped: whoever waits for an
//!   answer through it learns that none comes.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task;

/// So many items wake the loop even where nobody is in a hurry for them.
const LEFT_MAX: usize = 64;

/// Wakes the loop: out of epoll, or the task that it is.
#[derive(Debug)]
pub(crate) struct Waker {
    event: OwnedFd,
    /// Whom to wake where the loop is a task.
    task: Mutex<Option<task::Waker>>,
    is_asleep: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> Result<Self, Errno> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { event, task: Mutex::default(), is_asleep: AtomicBool::new(false) })
    }

    /// Something has been put into a mailbox. A system call only where the loop sleeps.
    fn wake(&self) {
        if !self.is_asleep.swap(false, Ordering::SeqCst) {
            return;
        }
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.as_ref() {
            task.wake_by_ref();
        } else {
            // It fails only where the counter is full, and then the loop is woken in any case.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// The loop is about to sleep: it looks into its mailboxes once more after this (M1).
    pub(crate) fn falling_asleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
    }

    /// The loop is this task from now on.
    pub(crate) fn wakes(&self, waker: &task::Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        match task.as_mut() {
            Some(task) => task.clone_from(waker),
            None => *task = Some(waker.clone()),
        }
    }

    /// The loop is awake.
    pub(crate) fn awake(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// The event has been seen.
    pub(crate) fn rearm(&self) {
        // It fails only where there is nothing to read.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// A queue into the loop.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    /// None once it is closed.
    items: Mutex<Option<Vec<T>>>,
    waker: Arc<Waker>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { items: Mutex::new(Some(Vec::new())), waker }
    }

    /// Whether the loop will see them; not once the mailbox is closed.
    pub(crate) fn put(&self, more: impl IntoIterator<Item = T>) -> bool {
        let is_open = match self.lock().as_mut() {
            Some(items) => {
                items.extend(more);
                true
            }
            None => false,
        };
        self.waker.wake();
        is_open
    }

    /// Puts one in without waking the loop, unless many have gathered; whether somebody takes it.
    pub(crate) fn leave(&self, one: T) -> bool {
        let count = self.lock().as_mut().map(|items| {
            items.push(one);
            items.len()
        });
        if count.is_some_and(|count| count >= LEFT_MAX) {
            self.waker.wake();
        }
        count.is_some()
    }

    /// Moves all that is there behind what `taken` holds.
    pub(crate) fn take(&self, taken: &mut Vec<T>) {
        if let Some(items) = self.lock().as_mut() {
            taken.append(items);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().as_ref().is_none_or(Vec::is_empty)
    }

    /// Nothing more is taken (M2).
    pub(crate) fn close(&self) {
        // Dropped after the lock is released: a command's drop may do anything.
        let left = self.lock().take();
        drop(left);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{LEFT_MAX, Mailbox, Waker};
    use rustix::io::Errno;
    use std::sync::Arc;

    #[test]
    fn a_sleeping_loop_is_woken_once_and_an_awake_one_never() {
        let waker = Arc::new(Waker::new().expect("an eventfd"));
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let woken = || rustix::io::read(&*waker, &mut [0; 8]);
        assert!(mailbox.put([1]));
        assert_eq!(woken(), Err(Errno::AGAIN), "awake: it looks by itself");
        waker.falling_asleep();
        assert!(!mailbox.is_empty(), "and it looks after this");
        mailbox.put([2]);
        mailbox.put([3]);
        assert_eq!(woken(), Ok(8));
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!(taken, [1, 2, 3]);
    }

    #[test]
    fn what_is_left_wakes_the_loop_only_where_much_of_it_has_come_together() {
        let waker = Arc::new(Waker::new().expect("an eventfd"));
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let woken = || rustix::io::read(&*waker, &mut [0; 8]);
        waker.falling_asleep();
        assert!((1..LEFT_MAX).all(|item| mailbox.leave(item)));
        assert_eq!(woken(), Err(Errno::AGAIN));
        assert!(mailbox.leave(LEFT_MAX));
        assert_eq!(woken(), Ok(8));
        mailbox.close();
        assert!(!mailbox.leave(0));
    }

    #[test]
    fn a_closed_mailbox_drops_what_it_held_and_takes_nothing() {
        let waker = Arc::new(Waker::new().expect("an eventfd"));
        let (mailbox, item) = (Mailbox::new(waker), Arc::new(()));
        mailbox.put([Arc::clone(&item)]);
        mailbox.close();
        assert_eq!(Arc::strong_count(&item), 1);
        assert!(!mailbox.put([item]));
    }
}
