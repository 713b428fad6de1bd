//! Which copy of a key may be deleted once another service has it.
//!
//! A key moves in three steps. Its service *seals* it for another one; that one stores the key and gives a *receipt*; for
//! the receipt, the first service deletes its copy. A receipt is a promise to keep the key. So a service that gives one
//! must not delete the key by a receipt which it asked for earlier: two services that each move the key to the other would
//! both have the other's promise, and both delete it. Three in a ring would as well.
//!
//! Each key therefore has one number here. A change of the key renews it, and so does each receipt that is given for the
//! key, whoever gets it. A seal carries the number of its time, and permits the deletion only while that number is the
//! present one. `tests/custody.rs` tries all orders of seals, arrivals, receipts, deletions and crashes of two and three
//! services.

/// The right to delete one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Custody {
    renewed: u64,
}

/// State of a key's custody when the key was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    renewed: u64,
}

impl Custody {
    /// Of a key that was stored or changed. The number is that of the change: the service uses none twice.
    pub fn new(number: u64) -> Self {
        Self { renewed: number }
    }

    /// The key is sealed for another service.
    pub fn seal(self) -> Seal {
        Seal { renewed: self.renewed }
    }

    /// A receipt is given for the key: by no earlier seal may it be deleted from now on. The number is a new one, as for
    /// [`new`](Self::new).
    pub fn promise(&mut self, number: u64) {
        self.renewed = number;
    }

    /// Whether a receipt for this seal permits to delete the key.
    pub fn may_delete(self, seal: Seal) -> bool {
        self.renewed == seal.renewed
    }
}
