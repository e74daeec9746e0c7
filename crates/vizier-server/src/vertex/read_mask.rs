//! Field masks: the parts of a resource that a caller reads.

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, Kind, ReflectMessage, Value};
use prost_types::FieldMask;
use tunesmith_domain::Refusal;
use tunesmith_vizier::json;

/// Field of a mask with all fields.
const ALL: &str = "*";

/// `message` with the fields of `mask` alone; all of them without a mask.
///
/// # Errors
/// A path that the message has not.
pub(super) fn masked<M: Message + Name + Default>(message: M, mask: Option<&FieldMask>) -> Result<M, Refusal> {
    let paths = mask.map_or(&[][..], |mask| &mask.paths);
    if paths.is_empty() || paths.iter().any(|path| path == ALL) {
        return Ok(message);
    }
    let full = json::descriptor(&M::full_name())?;
    let defect = |error: &dyn std::fmt::Display| {
        Refusal::new(tunesmith_domain::Code::Internal, format!("{} cannot be masked: {error}", M::NAME))
    };
    let full = DynamicMessage::decode(full, message.encode_to_vec().as_slice()).map_err(|error| defect(&error))?;
    let mut kept = DynamicMessage::new(full.descriptor());
    for path in paths {
        let names: Vec<&str> = path.split('.').collect();
        copy(&full, &mut kept, &names)
            .ok_or_else(|| Refusal::invalid("readMask", format!("{path:?} is no field of {}", M::NAME)))?;
    }
    kept.transcode_to().map_err(|error| defect(&error))
}

/// Copies the field at `path` from `full`; `None` if there is no such field.
fn copy(full: &DynamicMessage, kept: &mut DynamicMessage, path: &[&str]) -> Option<()> {
    let (first, rest) = path.split_first()?;
    let descriptor = full.descriptor();
    let field = descriptor.get_field_by_name(first).or_else(|| descriptor.get_field_by_json_name(first))?;
    if rest.is_empty() {
        if full.has_field(&field) {
            kept.set_field(&field, full.get_field(&field).into_owned());
        }
        return Some(());
    }
    // Only single messages have fields of their own in a mask.
    let Kind::Message(inner) = field.kind() else { return None };
    if field.is_list() || field.is_map() {
        return None;
    }
    let value = full.get_field(&field);
    let of_full = value.as_message()?;
    let mut of_kept = kept.get_field(&field).as_message().cloned().unwrap_or_else(|| DynamicMessage::new(inner));
    copy(of_full, &mut of_kept, rest)?;
    if full.has_field(&field) {
        kept.set_field(&field, Value::Message(of_kept));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use tunesmith_vizier::messages::vertex::{CustomJob, CustomJobSpec, Scheduling};

    use super::*;

    #[test]
    fn only_named_fields_are_kept() {
        let spec = CustomJobSpec {
            network: "n".to_owned(),
            scheduling: Some(Scheduling { disable_retries: true, ..Scheduling::default() }),
            ..CustomJobSpec::default()
        };
        let job = CustomJob { name: "x".to_owned(), state: 3, job_spec: Some(spec), ..CustomJob::default() };
        let mask = |paths: &[&str]| FieldMask { paths: paths.iter().map(ToString::to_string).collect() };
        let read = |paths: &[&str]| masked(job.clone(), Some(&mask(paths)));
        let name = CustomJob { name: "x".to_owned(), ..CustomJob::default() };
        assert_eq!(read(&["name"]).unwrap(), name);
        let network = CustomJobSpec { network: "n".to_owned(), ..CustomJobSpec::default() };
        assert_eq!(read(&["name", "job_spec.network"]).unwrap(), CustomJob { job_spec: Some(network), ..name });
        assert_eq!(read(&["*"]).unwrap(), job);
        assert_eq!(masked(job.clone(), None).unwrap(), job);
        for bad in ["nothing", "name.x", "labels.a", "job_spec.nothing"] {
            assert_eq!(read(&[bad]).unwrap_err().violations[0].field, "readMask", "{bad}");
        }
    }
}
