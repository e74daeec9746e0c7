//! Licence expressions of packages, in the syntax of SPDX.

use anyhow::{Result, bail};

/// Licences that may be linked into the program.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether `expression` can be satisfied by allowed licences. Old packages write `/` for `OR`.
///
/// # Errors
///
/// If `expression` is not a licence expression.
pub(super) fn is_allowed(expression: &str) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (allowed, rest) = alternatives(&tokens)?;
    if let Some(token) = rest.first() {
        bail!("unexpected \"{token}\"");
    }
    Ok(allowed)
}

/// Terms joined by `OR`. Like the functions below, it returns the tokens after the part that it evaluated.
fn alternatives<'a>(tokens: &'a [&'a str]) -> Result<(bool, &'a [&'a str])> {
    let (mut allowed, mut rest) = conjunction(tokens)?;
    while let ["OR", after @ ..] = rest {
        let (term, after) = conjunction(after)?;
        (allowed, rest) = (allowed || term, after);
    }
    Ok((allowed, rest))
}

/// Terms joined by `AND`.
fn conjunction<'a>(tokens: &'a [&'a str]) -> Result<(bool, &'a [&'a str])> {
    let (mut allowed, mut rest) = term(tokens)?;
    while let ["AND", after @ ..] = rest {
        let (term, after) = term(after)?;
        (allowed, rest) = (allowed && term, after);
    }
    Ok((allowed, rest))
}

/// A licence, a licence with an exception, or an expression in parentheses.
fn term<'a>(tokens: &'a [&'a str]) -> Result<(bool, &'a [&'a str])> {
    match tokens {
        ["(", inner @ ..] => match alternatives(inner)? {
            (allowed, [")", rest @ ..]) => Ok((allowed, rest)),
            _ => bail!("a parenthesis is not closed"),
        },
        [] | ["OR" | "AND" | "WITH" | ")", ..] => bail!("a licence is missing"),
        [licence, "WITH", exception, rest @ ..] => {
            Ok((ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()), rest))
        }
        [licence, rest @ ..] => Ok((ALLOWED.contains(licence), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allowed_alternative_is_enough() {
        for expression in ["MIT", "GPL-3.0 OR MIT", "0BSD/MIT", "Apache-2.0 WITH LLVM-exception", "MIT AND ISC"] {
            assert!(is_allowed(expression).unwrap(), "{expression}");
        }
        for expression in ["GPL-3.0", "MIT AND GPL-3.0", "MIT WITH X", "(MIT OR ISC) AND X", "X OR MIT AND Y"] {
            assert!(!is_allowed(expression).unwrap(), "{expression}");
        }
    }

    #[test]
    fn malformed_expressions_are_errors() {
        for expression in ["", "MIT OR", "(MIT", "MIT ISC", ") MIT", "AND MIT"] {
            assert!(is_allowed(expression).is_err(), "{expression}");
        }
    }
}
