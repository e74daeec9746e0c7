//! Self-contained HTML reports: style, scripts, data and plotly.js are inline.

mod diagram;
mod page;
mod plots;

pub use page::html;

/// Escapes HTML, also for attribute values.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Palette for colour-blind readers, after Okabe and Ito, "Color universal design", 2008, with two more colours and the
/// yellow darkened for white ground.
const PALETTE: [(u8, u8, u8); 10] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (178, 150, 0),
    (86, 180, 233),
    (230, 159, 0),
    (90, 90, 90),
    (130, 60, 160),
    (140, 86, 75),
];

fn colour(optimizer: usize) -> (u8, u8, u8) {
    PALETTE[optimizer % PALETTE.len()]
}

fn css_colour(optimizer: usize) -> String {
    let (red, green, blue) = colour(optimizer);
    format!("#{red:02x}{green:02x}{blue:02x}")
}
