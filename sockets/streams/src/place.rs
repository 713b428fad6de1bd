//! States of a place, as service and program set them, each in a word of its own. Both words carry the number of
//! their stream, so that neither side takes a word about the stream before for one about its own.

/// The service's state of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceState {
    /// It has nothing of that stream any more: the next stream may begin here.
    Free = 0,
    /// It has the socket, and moves the bytes of the ring.
    Open = 1,
    /// The service took the socket and gave it back; the word of the error tells the reason. Nothing is moved any
    /// more.
    Ended = 2,
}

/// The stream's fate, set by its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveRequest {
    /// It continues.
    Stay = 0,
    /// When the ring is empty the service closes its duplicate of the socket.
    Leave = 1,
    /// When the ring is empty nothing more is sent on the connection (`SHUT_WR`); then as `Leave`.
    ShutAndLeave = 2,
}

/// The service's word for the stream of that number.
pub fn state_word(stream: u32, state: PlaceState) -> u64 {
    u64::from(stream) << 8 | state as u64
}

/// The number of the stream in the service's word.
pub fn stream_of(word: u64) -> u32 {
    (word >> 8) as u32
}

/// The service's state for the stream of that number. `None`: nothing yet.
pub fn state_of(word: u64, stream: u32) -> Option<PlaceState> {
    [PlaceState::Free, PlaceState::Open, PlaceState::Ended].into_iter().find(|state| state_word(stream, *state) == word)
}

/// The program's word for the stream of that number.
pub fn leave_word(stream: u32, request: LeaveRequest) -> u64 {
    u64::from(stream) << 8 | request as u64
}

/// The program's request for the stream of that number.
pub fn leave_of(word: u64, stream: u32) -> LeaveRequest {
    let is = |request: &LeaveRequest| leave_word(stream, *request) == word;
    [LeaveRequest::Leave, LeaveRequest::ShutAndLeave].into_iter().find(is).unwrap_or(LeaveRequest::Stay)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_of_one_stream() {
        assert_eq!(state_of(state_word(3, PlaceState::Open), 3), Some(PlaceState::Open));
        assert_eq!(state_of(state_word(3, PlaceState::Open), 4), None);
        assert_eq!(state_of(0, 0), Some(PlaceState::Free), "fresh memory has free places");
        assert_eq!(stream_of(state_word(u32::MAX, PlaceState::Ended)), u32::MAX);
        assert_eq!(leave_of(leave_word(3, LeaveRequest::Leave), 3), LeaveRequest::Leave);
        assert_eq!(leave_of(leave_word(3, LeaveRequest::Leave), 4), LeaveRequest::Stay);
        assert_eq!(leave_of(u64::MAX, 3), LeaveRequest::Stay);
    }
}
