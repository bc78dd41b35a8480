//! URLs that a reviewer may open.

use super::{Found, ViolationCode};

/// Refuses what is not on the web, and what leads back to the reviewer's own machine.
pub(super) fn check(url: &str, path: &str, file: Option<&str>, found: &mut Found) {
    let Some((scheme, rest)) = url.split_once(':') else {
        return found.add(
            ViolationCode::MalformedReference,
            path,
            file,
            "a URL is not absolute",
        );
    };
    let scheme = scheme.to_ascii_lowercase();
    if scheme != "http" && scheme != "https" {
        return found.add(
            ViolationCode::UnsafeFile,
            path,
            file,
            "a URL is not of http or https",
        );
    }
    let Some(host) = host(rest) else {
        return found.add(
            ViolationCode::MalformedReference,
            path,
            file,
            "a URL has no host",
        );
    };
    if is_local(&host) {
        found.add(
            ViolationCode::UnsafeFile,
            path,
            file,
            "a URL is of a local host",
        );
    }
}

fn host(rest: &str) -> Option<String> {
    // Readers take backslashes for slashes, and any number of slashes for two.
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.split(':').next()?,
    };
    let host = host.to_lowercase();
    (!host.is_empty() && !host.contains(char::is_whitespace)).then_some(host)
}

/// An address that is spelled in an unusual way is taken for a local one: readers rewrite them.
fn is_local(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let numeric = host.split('.').all(|part| {
        part.bytes().all(|byte| byte.is_ascii_digit())
            || part
                .strip_prefix("0x")
                .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
    });
    if numeric {
        return match host.parse::<std::net::Ipv4Addr>() {
            Ok(address) => address.is_loopback() || address.is_unspecified(),
            Err(_) => true,
        };
    }
    if let Ok(address) = host.parse::<std::net::Ipv6Addr>() {
        let v4 = address.to_ipv4();
        return address.is_loopback()
            || address.is_unspecified()
            || v4.is_some_and(|v4| v4.is_loopback() || v4.is_unspecified());
    }
    host == "localhost"
        || host.ends_with(".localhost")
        || host.ends_with(".local")
        || host.contains('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_web_is_safe() {
        let rows = [
            ("https://example.com/a?b", None),
            ("http://93.184.216.34:8080/", None),
            ("https://[2001:db8::1]/", None),
            ("example.com", Some(ViolationCode::MalformedReference)),
            ("https://", Some(ViolationCode::MalformedReference)),
            ("file:///etc/passwd", Some(ViolationCode::UnsafeFile)),
            ("javascript:alert(1)", Some(ViolationCode::UnsafeFile)),
            ("http://localhost/", Some(ViolationCode::UnsafeFile)),
            ("http://LOCALHOST.:80/", Some(ViolationCode::UnsafeFile)),
            ("http://user@127.0.0.1/", Some(ViolationCode::UnsafeFile)),
            ("http://127.1/", Some(ViolationCode::UnsafeFile)),
            ("http://2130706433/", Some(ViolationCode::UnsafeFile)),
            ("http://0x7f.0.0.1/", Some(ViolationCode::UnsafeFile)),
            ("http://0.0.0.0", Some(ViolationCode::UnsafeFile)),
            ("http://[::1]:80/", Some(ViolationCode::UnsafeFile)),
            (
                "http://[::ffff:127.0.0.1]/",
                Some(ViolationCode::UnsafeFile),
            ),
            ("https://printer.local", Some(ViolationCode::UnsafeFile)),
            ("http:\\\\localhost\\x", Some(ViolationCode::UnsafeFile)),
        ];
        for (url, expected) in rows {
            let mut found = Found::default();
            check(url, "at", None, &mut found);
            let code = found.violations.first().map(|violation| violation.code);
            assert_eq!(code, expected, "{url}");
        }
    }
}
