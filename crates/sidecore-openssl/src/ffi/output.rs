//! Where operations put their results.

use sidecore_client::face::failure::Failure;

/// Where OpenSSL wants a result.
pub(super) struct Output<'a> {
    /// None: only the length is asked for.
    room: Option<&'a mut [u8]>,
    len: &'a mut usize,
}

impl<'a> Output<'a> {
    /// # Safety
    /// `room` is null or has `size` bytes.
    pub(super) unsafe fn new(room: *mut u8, len: Option<&'a mut usize>, size: usize) -> Option<Self> {
        // SAFETY: see above.
        let room = (!room.is_null()).then(|| unsafe { std::slice::from_raw_parts_mut(room, size) });
        Some(Self { room, len: len? })
    }

    /// Answers with the longest length, if that is the question, else with what is made.
    pub(super) fn answer<R: AsRef<[u8]>>(
        output: Option<Self>,
        longest: usize,
        make: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<bool, Failure> {
        let Some(mut output) = output else { return Ok(false) };
        if output.only_length(longest) { Ok(true) } else { output.put(make()?.as_ref()) }
    }

    /// Answers with the longest length, if that is the question.
    pub(super) fn only_length(&mut self, longest: usize) -> bool {
        if self.room.is_none() {
            *self.len = longest;
        }
        self.room.is_none()
    }

    pub(super) fn put(self, result: &[u8]) -> Result<bool, Failure> {
        let room = self.room.and_then(|room| room.get_mut(..result.len()));
        let room = room.ok_or_else(|| Failure::input(format!("no room for a result of {} bytes", result.len())))?;
        room.copy_from_slice(result);
        *self.len = result.len();
        Ok(true)
    }
}
