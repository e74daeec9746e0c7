//! Query strings with repeated parameters.

/// Names and values of `query`, decoded, in order.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned()
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
