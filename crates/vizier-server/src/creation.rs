//! Creation of studies, which have a name for display.

use rand::Rng;
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::optimizer::{StudyConfig, StudyPlan, study_plan};
use tunesmith_domain::{Metadata, NewStudy, Refusal, SourceStudies, Study, StudyId};
use tunesmith_store::StoreError;
use tunesmith_studies::StudiesError;
use tunesmith_vizier::names::{MAX_DISPLAY_NAME, ids_of};
use tunesmith_vizier::vertex::{config_of, violations_of_spec};

use crate::refusals::violations;
use crate::services::Context;

/// Study to be created.
pub(crate) struct Creation {
    pub(crate) id: StudyId,
    pub(crate) display_name: String,
    pub(crate) config: StudyConfig,
    pub(crate) metadata: Metadata,
    pub(crate) notices: Vec<Notice>,
}

/// A study, whether it was created now, and notices about its specification.
pub(crate) struct Created {
    pub(crate) study: Study,
    pub(crate) is_new: bool,
    pub(crate) notices: Vec<String>,
}

/// Creates a study, or finds the one with its name.
pub(crate) async fn create(context: &Context, creation: Creation) -> Result<Created, Refusal> {
    let Creation { id, display_name, mut config, metadata, mut notices } = creation;
    check_display_name(&display_name)?;
    if id.is_of_job() {
        let text = format!("the location {:?} is reserved for the studies of jobs", StudyId::JOBS_LOCATION);
        return Err(Refusal::invalid("parent", text));
    }
    config.tunesmith.display_name.clone_from(&display_name);
    let plan = study_plan(&config).map_err(|found| violations(violations_of_spec(found)))?;
    let StudyPlan { spec, notices: of_rules, .. } = plan;
    notices.extend(of_rules);
    let notices = notices.iter().map(|notice| format!("{}: {}", notice.field, notice.description)).collect();
    if let Some(study) = named(context, &id, &display_name).await? {
        return Ok(Created { study, is_new: false, notices });
    }
    let document = serde_json::to_value(&config);
    let document = document.map_err(|error| Refusal::invalid("studySpec", format!("cannot be stored: {error}")))?;
    let study = spec.into_study(NewStudy {
        id: id.clone(),
        seed: rand::rng().next_u64(),
        sources: SourceStudies::default(),
        config: document,
        metadata,
        create_time: context.services.clock.now(),
    });
    match context.studies().create_study(study).await {
        Ok(study) => Ok(Created { study, is_new: true, notices }),
        // Another call has created it meanwhile.
        Err(StudiesError::Store(StoreError::AlreadyExists { .. })) => {
            let study = context.studies().study(&id).await?;
            Ok(Created { study, is_new: false, notices })
        }
        Err(error) => Err(error.into()),
    }
}

fn check_display_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::invalid("displayName", "is required"));
    }
    let length = name.chars().count();
    if length > MAX_DISPLAY_NAME {
        let text = format!("has {length} characters; allowed: at most {MAX_DISPLAY_NAME}");
        return Err(Refusal::invalid("displayName", text));
    }
    Ok(())
}

/// The study with this name for display, beside that of `id`.
pub(crate) async fn named(context: &Context, id: &StudyId, display_name: &str) -> Result<Option<Study>, Refusal> {
    let (project, location, _) = id.parts();
    for name in ids_of(display_name) {
        let Ok(id) = StudyId::new(project, location, &name) else { continue };
        match context.studies().study(&id).await {
            Ok(study) => return Ok(Some(study)),
            Err(StudiesError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Whether `study` has the specification of `config`, whose name for display and seed do not count.
pub(crate) fn has_spec(study: &Study, config: &StudyConfig) -> Result<bool, Refusal> {
    let mut stored = config_of(study)?;
    let mut config = config.clone();
    for config in [&mut stored, &mut config] {
        config.tunesmith.display_name.clear();
        config.tunesmith.seed = None;
        config.tunesmith.max_trials = None;
    }
    Ok(stored == config)
}
