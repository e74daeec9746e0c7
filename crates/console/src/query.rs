//! Query strings with repeated parameters.

/// Names and values of `query`, decoded, in order.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let given = query.split('&').filter(|pair| !pair.is_empty());
    given.map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// Distinct non-empty values of the parameter `name`.
pub(crate) fn values(query: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (given, value) in pairs(query) {
        if given == name && !value.is_empty() && !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_distinct() {
        let query = "a=1&b=x+y%26%C3%A9&a=&&a=2&a=1&c";
        assert_eq!(values(query, "a"), ["1", "2"]);
        assert_eq!(values(query, "b"), ["x y&é"]);
        assert_eq!(pairs(query).count(), 6);
    }
}
