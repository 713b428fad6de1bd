//! What service and program say of a place, each in a word of its own. Both words carry the number of the stream that they
//! are about, so that neither takes what was said of the stream before for its own.

/// What the service says of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has nothing of that stream any more: the next may begin here.
    Free = 0,
    /// It has the socket, and moves what the ring holds.
    Open = 1,
    /// It took the socket and gave it back by itself; the word of the error says why. Nothing is moved any more.
    Ended = 2,
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It goes on.
    Stay = 0,
    /// When the ring is empty the service closes its duplicate of the socket.
    Leave = 1,
    /// When the ring is empty nothing more is sent on the connection (`SHUT_WR`); then as `Leave`.
    ShutAndLeave = 2,
}

/// The service's word for the stream of that number.
pub fn state_word(stream: u32, state: State) -> u64 {
    u64::from(stream) << 8 | state as u64
}

/// The number of the stream that the service's word is about.
pub fn stream_of(word: u64) -> u32 {
    (word >> 8) as u32
}

/// What the service says of the stream of that number. `None`: nothing yet.
pub fn state_of(word: u64, stream: u32) -> Option<State> {
    [State::Free, State::Open, State::Ended].into_iter().find(|state| state_word(stream, *state) == word)
}

/// The program's word for the stream of that number.
pub fn wish_word(stream: u32, wish: Wish) -> u64 {
    u64::from(stream) << 8 | wish as u64
}

/// What the program wants of the stream of that number.
pub fn wish_of(word: u64, stream: u32) -> Wish {
    let is = |wish: &Wish| wish_word(stream, *wish) == word;
    [Wish::Leave, Wish::ShutAndLeave].into_iter().find(is).unwrap_or(Wish::Stay)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_of_one_stream() {
        assert_eq!(state_of(state_word(3, State::Open), 3), Some(State::Open));
        assert_eq!(state_of(state_word(3, State::Open), 4), None);
        assert_eq!(state_of(0, 0), Some(State::Free), "fresh memory has free places");
        assert_eq!(stream_of(state_word(u32::MAX, State::Ended)), u32::MAX);
        assert_eq!(wish_of(wish_word(3, Wish::Leave), 3), Wish::Leave);
        assert_eq!(wish_of(wish_word(3, Wish::Leave), 4), Wish::Stay);
        assert_eq!(wish_of(u64::MAX, 3), Wish::Stay);
    }
}
