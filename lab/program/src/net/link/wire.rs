//! Length of a frame on a line.

use tun_rs::{VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP_L4, VirtioNetHdr};

/// Ethernet's overhead of each frame: preamble, check sequence and gap.
const AROUND: u64 = 8 + 4 + 12;
/// Ethernet's shortest frame, without the check sequence.
const SHORTEST: u64 = 60;
/// Flag within the type of segmentation: the first segment carries a congestion mark.
const CONGESTED: u8 = 0x80;
const UDP_HEADER: usize = 8;
/// Offset of the length of TCP's header.
const TCP_LENGTH: usize = 12;

/// Bytes of that frame on the line. `said`: the interface's header. It marks a frame still to be cut into segments,
/// which counts as all of its segments with their headers.
pub(super) fn bytes(said: Option<&VirtioNetHdr>, frame: &[u8]) -> u64 {
    let length = frame.len() as u64;
    let Some((headers, segment)) = said.and_then(|said| cut(said, frame)) else {
        return length.max(SHORTEST) + AROUND;
    };
    let payload = length.saturating_sub(headers);
    let segments = payload.div_ceil(segment).max(1);
    // The last segment may be shorter than Ethernet's minimum; it is one of many.
    payload + segments * (headers + AROUND)
}

/// Bytes of the headers, and of payload of a segment. `None`: the frame stays whole.
fn cut(said: &VirtioNetHdr, frame: &[u8]) -> Option<(u64, u64)> {
    let transport = usize::from(said.csum_start);
    let header = match said.gso_type & !CONGESTED {
        VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_TCPV6 => usize::from(frame.get(transport + TCP_LENGTH)? >> 4) * 4,
        VIRTIO_NET_HDR_GSO_UDP_L4 => UDP_HEADER,
        _ => return None,
    };
    Some(((transport + header) as u64, u64::from(said.gso_size))).filter(|_| said.gso_size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(payload: usize) -> (VirtioNetHdr, Vec<u8>) {
        let mut frame = vec![0; 14 + 20 + 32 + payload];
        frame[14 + 20 + TCP_LENGTH] = 8 << 4;
        let said = VirtioNetHdr {
            gso_type: VIRTIO_NET_HDR_GSO_TCPV4,
            gso_size: 1448,
            csum_start: 34,
            ..VirtioNetHdr::default()
        };
        (said, frame)
    }

    #[test]
    fn a_frame_is_as_long_as_on_ethernet() {
        assert_eq!(bytes(None, &[0; 1514]), 1538);
        assert_eq!(bytes(None, &[0; 42]), 84, "the shortest");
        assert_eq!(bytes(Some(&VirtioNetHdr::default()), &[0; 1514]), 1538);
    }

    #[test]
    fn what_is_still_to_be_cut_is_as_long_as_its_segments() {
        let (said, frame) = tcp(44 * 1448);
        assert_eq!(bytes(Some(&said), &frame), 44 * 1538);
        let (said, frame) = tcp(44 * 1448 + 1);
        assert_eq!(bytes(Some(&said), &frame), 44 * 1538 + 66 + 1 + AROUND);
        let (said, frame) = tcp(44 * 1448);
        let congested = VirtioNetHdr { gso_type: said.gso_type | CONGESTED, ..said };
        assert_eq!(bytes(Some(&congested), &frame), 44 * 1538);
    }

    #[test]
    fn datagrams_are_cut_behind_their_header() {
        let said = VirtioNetHdr {
            gso_type: VIRTIO_NET_HDR_GSO_UDP_L4,
            gso_size: 1000,
            csum_start: 34,
            ..VirtioNetHdr::default()
        };
        assert_eq!(bytes(Some(&said), &[0; 42 + 3000]), 3 * (1042 + AROUND));
    }

    #[test]
    fn what_the_interface_says_of_bytes_that_are_not_there_is_not_believed() {
        let (said, frame) = tcp(100);
        assert_eq!(bytes(Some(&said), &frame[..40]), SHORTEST + AROUND);
        let far = VirtioNetHdr { csum_start: u16::MAX, ..said };
        assert_eq!(bytes(Some(&far), &frame), 166 + AROUND);
    }
}
