use super::*;

/// Parses a record written by tensorboard 2.21 with protobuf, at step 3 and time 1700000000.5, tag `acc`.
fn parse(hex: &str) -> Vec<f64> {
    let record: Vec<u8> =
        (0..hex.len()).step_by(2).map(|index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap()).collect();
    let event = Event::parse(&record[12..record.len() - 4]).unwrap();
    assert_eq!((event.step, event.wall_time_secs), (3, 1_700_000_000.5));
    event.scalars.iter().for_each(|scalar| assert_eq!(scalar.tag, b"acc"));
    event.scalars.iter().map(|scalar| scalar.value).collect()
}

#[test]
fn tensors_of_one_element_are_read_for_each_type() {
    for (shape, hex, value) in [
        (
            "float_val of torch",
            "2b00000000000000861bc34b0900002040fc54d94110032a1e0a1c0a03616363420808012a040000403f4a0b0a090a077363616c617273cc0db56d",
            0.75,
        ),
        (
            "double_val without a shape",
            "2f000000000000006d5d1d500900002040fc54d94110032a220a200a03616363420c080232089a9999999999b93f4a0b0a090a077363616c617273f8315494",
            0.1,
        ),
        (
            "float_val of tensorboard",
            "2d000000000000003c418afb0900002040fc54d94110032a200a1e0a03616363420a080112002a040000803e4a0b0a090a077363616c61727371e3e075",
            0.25,
        ),
        (
            "tensor_content of TensorFlow 2",
            "2d000000000000003c418afb0900002040fc54d94110032a200a1e0a03616363420a0801120022040000003f4a0b0a090a077363616c617273779e0f5b",
            0.5,
        ),
        (
            "half",
            "2b00000000000000861bc34b0900002040fc54d94110032a1e0a1c0a036163634208081312006a02807c4a0b0a090a077363616c61727383d47ecb",
            1.5,
        ),
        (
            "bfloat16",
            "2b00000000000000861bc34b0900002040fc54d94110032a1e0a1c0a036163634208080e12006a02c07f4a0b0a090a077363616c617273174c9eb0",
            1.5,
        ),
        (
            "int32",
            "31000000000000009d8383e90900002040fc54d94110032a240a220a03616363420e08033a0af9ffffffffffffffff014a0b0a090a077363616c617273d1a25302",
            -7.0,
        ),
        (
            "int64",
            "2d000000000000003c418afb0900002040fc54d94110032a200a1e0a03616363420a080952068080808080204a0b0a090a077363616c61727375e632ed",
            1_099_511_627_776.0,
        ),
    ] {
        assert_eq!(parse(hex), [value], "{shape}");
    }
}

#[test]
fn text_and_vectors_are_not_scalars() {
    assert_eq!(
        parse(
            "2b00000000000000861bc34b0900002040fc54d94110032a1e0a1c0a03616363420b08071200420568656c6c6f4a080a060a047465787411b7ddff"
        ),
        [0.0; 0]
    );
    assert_eq!(
        parse(
            "31000000000000009d8383e90900002040fc54d94110032a240a220a03616363420e08011204120208022a040000003f4a0b0a090a077363616c61727399bd0329"
        ),
        [0.0; 0]
    );
}

#[test]
fn simple_value_is_read_with_defaults_for_absent_fields() {
    let simple = b"\x2a\x0c\x0a\x0a\x0a\x03acc\x15\x00\x00\x00\x3f";
    let event = Event::parse(simple).unwrap();
    assert_eq!(event, Event { wall_time_secs: 0.0, step: 0, scalars: vec![Scalar { tag: b"acc", value: 0.5 }] });
}

#[test]
fn tensor_content_must_have_the_size_of_one_element() {
    assert_eq!(DataType::Float.read_content(&[0; 8]), None);
    assert_eq!(DataType::Double.read_content(&[0; 4]), None);
    assert_eq!(DataType::Half.read_content(&[0, 0x3c]), Some(1.0));
    assert_eq!(DataType::BFloat16.read_content(&[0x80, 0x3f]), Some(1.0));
    assert_eq!(DataType::Int32.read_content(&(-2_i32).to_le_bytes()), Some(-2.0));
    assert_eq!(DataType::Int64.read_content(&(-3_i64).to_le_bytes()), Some(-3.0));
}

#[test]
fn tensors_with_several_elements_are_not_scalars() {
    // Field 1 is the type, float; field 5 holds the values.
    let one_by_one = [0x08, 1, 0x2d, 0, 0, 0, 0, 0x2d, 0, 0, 0, 0];
    let packed = [0x08, 1, 0x2a, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    let none = [0x08, 1];
    let text = [0x08, 7, 0x42, 1, b'x'];
    for tensor in [&one_by_one[..], &packed, &none, &text] {
        assert_eq!(parse_tensor(tensor), Ok(None), "{tensor:?}");
    }
    assert_eq!(parse_tensor(&one_by_one[..7]), Ok(Some(0.0)));
    assert_eq!(parse_tensor(&packed[..5]), Err(MalformedMessage("a field is cut short")));
}

#[test]
fn other_plugins_are_skipped_unless_they_declare_a_scalar() {
    let metadata = |name: &[u8]| [&[0x0a, name.len() as u8 + 2, 0x0a, name.len() as u8], name].concat();
    assert_eq!(is_of_scalars(b""), Ok(true));
    assert_eq!(is_of_scalars(&metadata(b"scalars")), Ok(true));
    assert_eq!(is_of_scalars(&metadata(b"hparams")), Ok(false));
    assert_eq!(is_of_scalars(&[metadata(b"mine"), vec![0x20, 1]].concat()), Ok(true));
}
