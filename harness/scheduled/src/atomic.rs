//! Atomic integers.

use std::sync::atomic::Ordering;

use crate::check::is_scheduled;

macro_rules! atomic {
    ($name:ident, $value:ty, $what:literal) => {
        #[doc = concat!("Atomic ", $what, ", as that of `std`.")]
        #[derive(Debug)]
        pub struct $name(Either<std::sync::atomic::$name, shuttle::sync::atomic::$name>);

        impl $name {
            /// Makes one with this value.
            pub fn new(value: $value) -> Self {
                Self(match is_scheduled() {
                    false => Either::Real(std::sync::atomic::$name::new(value)),
                    true => Either::Scheduled(shuttle::sync::atomic::$name::new(value)),
                })
            }

            /// Returns the value.
            pub fn load(&self, order: Ordering) -> $value {
                match &self.0 {
                    Either::Real(atomic) => atomic.load(order),
                    Either::Scheduled(atomic) => atomic.load(order),
                }
            }

            /// Sets the value.
            pub fn store(&self, value: $value, order: Ordering) {
                match &self.0 {
                    Either::Real(atomic) => atomic.store(value, order),
                    Either::Scheduled(atomic) => atomic.store(value, order),
                }
            }

            /// Sets the value. Returns the one before.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                match &self.0 {
                    Either::Real(atomic) => atomic.swap(value, order),
                    Either::Scheduled(atomic) => atomic.swap(value, order),
                }
            }

            /// Sets the value if it is `current`.
            ///
            /// # Errors
            ///
            /// Returns the value if it is another one.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                match &self.0 {
                    Either::Real(atomic) => atomic.compare_exchange(current, new, success, failure),
                    Either::Scheduled(atomic) => {
                        atomic.compare_exchange(current, new, success, failure)
                    }
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        atomic!($name, $value, "integer");

        impl $name {
            /// Adds, and wraps around. Returns the value before.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                match &self.0 {
                    Either::Real(atomic) => atomic.fetch_add(value, order),
                    Either::Scheduled(atomic) => atomic.fetch_add(value, order),
                }
            }

            /// Subtracts, and wraps around. Returns the value before.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                match &self.0 {
                    Either::Real(atomic) => atomic.fetch_sub(value, order),
                    Either::Scheduled(atomic) => atomic.fetch_sub(value, order),
                }
            }
        }
    };
}

#[derive(Debug)]
enum Either<R, S> {
    Real(R),
    Scheduled(S),
}

atomic!(AtomicBool, bool, "boolean");
integer!(AtomicU64, u64);
integer!(AtomicUsize, usize);
