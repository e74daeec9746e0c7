use super::*;

fn trials() -> Table {
    let mut table = Table::new(vec![
        Column::text("trial"),
        Column::number("loss"),
        Column::number("learning_rate").may_be_left_out(0),
        Column::value("optimizer").may_be_left_out(1),
        Column::text("state"),
        Column::prose("reason"),
    ]);
    let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
    table.add_row(row(["1", "12.5", "0.01", "adam", "SUCCEEDED", ""]));
    table.add_row(row(["2", "0.125", "1e-6", "sgd", "SUCCEEDED", ""]));
    table.add_row(row(["3", "-", "1", "sgd", "FAILED", "the program ended with exit code 3: out of memory"]));
    table
}

fn at(width: Option<usize>, columns: &[&str]) -> String {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    trials().render(&Layout { width, columns, is_selectable: true }).unwrap()
}

#[test]
fn numbers_are_aligned_at_the_decimal_point() {
    let text = at(None, &["loss", "learning_rate"]);
    assert_eq!(text, "  loss  learning_rate\n12.5             0.01\n 0.125           1e-6\n     -           1\n");
}

#[test]
fn columns_that_do_not_fit_are_left_out_and_named_and_reasons_are_wrapped() {
    let text = at(Some(69), &[]);
    assert!(text.lines().next().unwrap().chars().count() <= 69, "{text}");
    assert!(
        text.contains("1 column does not fit: optimizer (--wide prints all columns, --columns selects some)"),
        "{text}"
    );
    assert!(text.contains("learning_rate") && text.contains("ended with exit"), "{text}");
    let text = at(Some(52), &[]);
    assert!(text.contains("2 columns do not fit: learning_rate, optimizer"), "{text}");
    let shown = text.lines().filter(|line| !line.contains("do not fit"));
    assert!(shown.map(|line| line.chars().count()).max().unwrap() <= 52, "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(["exit", "code", "out", "memory"].iter().all(|word| words.contains(word)), "{text}");
    assert!(!at(None, &[]).contains("fit"));
}

#[test]
fn selected_columns_are_printed_in_the_given_order_and_unknown_ones_are_refused() {
    let text = at(Some(10), &["State", "trial"]);
    assert!(text.contains("state") && text.find("state") < text.find("trial") && !text.contains("loss"), "{text}");
    let layout = Layout { columns: vec!["los".to_owned()], ..Layout::default() };
    let error = trials().render(&layout).unwrap_err().to_string();
    assert_eq!(
        error,
        "--columns: no column is named \"los\"; the columns are trial, loss, learning_rate, optimizer, state, reason"
    );
}

#[test]
fn long_words_are_broken() {
    assert_eq!(wrapped("see /a/very/long/path now", 6), "see\n/a/ver\ny/long\n/path\nnow");
    assert_eq!(wrapped("", 6), "");
}
