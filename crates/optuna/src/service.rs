//! The gRPC service: translates messages to calls of the storage. Every call is admitted and audited.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use prost::Message;
use rand::Rng;
use tokio::time::MissedTickBehavior;
use tonic::{Request, Response, Status, async_trait};
use tracing::Instrument;
use tunesmith_admission::use_cases::{self, UseCase};
use tunesmith_admission::{AccessControl, Call, Client, Outcome};
use tunesmith_domain::Refusal;
use tunesmith_telemetry::telemetry;

use crate::checks::{self, TIME_FORMAT};
use crate::leases::Leases;
use crate::limits::INCLUDED_TRIALS;
use crate::server::Clock;
use crate::storage::{AttributeKind, Parameter, Storage, StorageError};
use crate::wire::storage_service_server::StorageService;
use crate::wire::*;

/// Client address, an extension of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

#[derive(Clone)]
pub(crate) struct Service {
    storage: Arc<Storage>,
    control: Arc<AccessControl>,
    clock: Clock,
    /// `None`: running trials never expire.
    leases: Option<Arc<Leases>>,
}

/// A reply, and the name of the resource that the call created.
struct Handled<R> {
    reply: R,
    created: Option<String>,
}

type Handling<R> = Result<Handled<R>, StorageError>;

type Replied<R> = Result<Response<R>, Status>;

const STUDIES: &str = "optuna/studies";

fn study_name(id: i64) -> String {
    format!("{STUDIES}/{id}")
}

fn trial_name(id: i64) -> String {
    format!("optuna/trials/{id}")
}

fn done<R>(reply: R) -> Handling<R> {
    Ok(Handled { reply, created: None })
}

fn created<R>(reply: R, name: String) -> Handling<R> {
    Ok(Handled { reply, created: Some(name) })
}

impl Service {
    pub(crate) fn new(storage: Storage, control: Arc<AccessControl>, clock: Clock, lease: Option<Duration>) -> Self {
        let leases = lease.map(|lease| Arc::new(Leases::new(lease)));
        Self { storage: Arc::new(storage), control, clock, leases }
    }

    /// Fails trials whose leases expire, until dropped.
    pub(crate) async fn sweep(self) {
        let Some(leases) = &self.leases else { return };
        let mut interval = tokio::time::interval(leases.interval());
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            match self.storage.running_trials().await {
                Ok(trials) => {
                    leases.resume(trials, Instant::now());
                    break;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the running Optuna trials cannot be read yet");
                }
            }
        }
        loop {
            interval.tick().await;
            for trial in leases.expired(Instant::now()) {
                let leases = Arc::clone(leases);
                let still = Arc::clone(&leases);
                let is_abandoned = move || still.is_expired(trial, Instant::now());
                match self.storage.fail_abandoned(trial, self.now(), is_abandoned).await {
                    Ok(true) => tracing::info!(trial.id = trial, "an Optuna trial failed: its lease expired"),
                    // Renewed in the meantime.
                    Ok(false) if leases.is_expired(trial, Instant::now()) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, trial.id = trial, "an expired Optuna trial cannot be ended yet");
                        continue;
                    }
                }
                leases.end(trial);
            }
        }
    }

    fn renew(&self, trial: i64) {
        if let Some(leases) = &self.leases {
            leases.renew(trial, Instant::now());
        }
    }

    /// Follows the change of a trial to `state`.
    fn state_changed(&self, trial: i64, state: TrialState) {
        match (&self.leases, state) {
            (None, _) => {}
            (Some(leases), TrialState::Running) => leases.begin(trial, Instant::now()),
            (Some(leases), _) => leases.end(trial),
        }
    }

    /// Admits a call of `use_case` on `resource`, handles its message, and records, counts and logs the outcome.
    async fn call<M, R, F>(
        &self,
        use_case: UseCase,
        resource: String,
        request: Request<M>,
        handle: impl FnOnce(Self, M) -> F + Send + 'static,
    ) -> Replied<R>
    where
        M: Message + 'static,
        R: Send + 'static,
        F: Future<Output = Handling<R>> + Send + 'static,
    {
        let begin = Instant::now();
        let (_, extensions, message) = request.into_parts();
        let peer = extensions.get::<Peer>().map(|Peer(address)| address.ip());
        let request_id = format!("{:016x}", rand::rng().next_u64());
        let span = tracing::info_span!("request", request.id = request_id);
        let client = Client { address: peer, request_id, ..Client::default() };
        let call = Call { use_case, project: String::new(), job: None, resource, client, idempotency_key: None };
        let handled = self.admitted(call, message, handle).instrument(span.clone()).await;
        let status = handled.as_ref().map_or_else(|refusal| refusal.code.http_status(), |_| 200);
        let time = begin.elapsed();
        telemetry().request(use_case.name(), status, time);
        span.in_scope(|| {
            tracing::info!(
                api.method = use_case.name(),
                http.status = status,
                seconds = time.as_secs_f64(),
                "answered"
            );
        });
        handled.map(Response::new).map_err(|refusal| Status::new(refusal.code.number().into(), refusal.message))
    }

    async fn admitted<M, R, F>(
        &self,
        call: Call,
        message: M,
        handle: impl FnOnce(Self, M) -> F + Send + 'static,
    ) -> Result<R, Refusal>
    where
        M: Message + 'static,
        R: Send + 'static,
        F: Future<Output = Handling<R>> + Send + 'static,
    {
        let changes = call.use_case.changes();
        let admission = self.control.admit(call).await?;
        let (service, input_bytes) = (self.clone(), message.encoded_len());
        let handler = async move |admission: tunesmith_admission::Admission| {
            if changes {
                admission.begin_change();
            }
            handle(service, message).await.map_err(Refusal::from)
        };
        let outcome = |handled: &Result<Handled<R>, Refusal>| match handled {
            Ok(handled) => Outcome { status: 200, resource: handled.created.clone() },
            Err(refusal) => Outcome::of_refusal(refusal),
        };
        admission.run(input_bytes, handler, outcome).await?.map(|handled| handled.reply)
    }

    /// Local time of the server without its zone, as Optuna's clients expect it.
    fn now(&self) -> String {
        let now = (self.clock)().to_zoned(TimeZone::system());
        now.strftime(TIME_FORMAT).to_string()
    }

    async fn set_study_attribute<R: Default + Send + 'static>(
        &self,
        kind: AttributeKind,
        request: Request<impl Message + Into<Attribute> + 'static>,
        id: i64,
    ) -> Replied<R> {
        self.call(use_cases::OPTUNA_SET_STUDY_ATTRIBUTE, study_name(id), request, async move |service, message| {
            let Attribute { key, value } = message.into();
            checks::check_attribute(&key, &value)?;
            service.storage.set_study_attribute(id, kind, key, value).await?;
            done(R::default())
        })
        .await
    }

    async fn set_trial_attribute<R: Default + Send + 'static>(
        &self,
        kind: AttributeKind,
        request: Request<impl Message + Into<Attribute> + 'static>,
        id: i64,
    ) -> Replied<R> {
        self.call(use_cases::OPTUNA_SET_TRIAL_ATTRIBUTE, trial_name(id), request, async move |service, message| {
            let Attribute { key, value } = message.into();
            checks::check_attribute(&key, &value)?;
            service.renew(id);
            service.storage.set_trial_attribute(id, kind, key, value).await?;
            done(R::default())
        })
        .await
    }
}

struct Attribute {
    key: String,
    value: String,
}

/// Defines the conversion of four messages of one form.
macro_rules! attributes {
    ($($message:ident)*) => {
        $(impl From<$message> for Attribute {
            fn from(message: $message) -> Self {
                Self { key: message.key, value: message.value }
            }
        })*
    };
}

attributes! {
    SetStudyUserAttributeRequest
    SetStudySystemAttributeRequest
    SetTrialUserAttributeRequest
    SetTrialSystemAttributeRequest
}

#[async_trait]
impl StorageService for Service {
    async fn create_new_study(&self, request: Request<CreateNewStudyRequest>) -> Replied<CreateNewStudyReply> {
        self.call(use_cases::OPTUNA_CREATE_STUDY, STUDIES.to_owned(), request, async |service, message| {
            let CreateNewStudyRequest { directions, study_name: name } = message;
            let directions = checks::directions(&directions)?;
            checks::check_name("study_name", &name)?;
            let study_id = service.storage.create_study(directions, name).await?;
            created(CreateNewStudyReply { study_id }, study_name(study_id))
        })
        .await
    }

    async fn delete_study(&self, request: Request<DeleteStudyRequest>) -> Replied<DeleteStudyReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_DELETE_STUDY, study_name(id), request, async move |service, _| {
            service.storage.delete_study(id).await?;
            done(DeleteStudyReply {})
        })
        .await
    }

    async fn set_study_user_attribute(
        &self,
        request: Request<SetStudyUserAttributeRequest>,
    ) -> Replied<SetStudyUserAttributeReply> {
        let id = request.get_ref().study_id;
        self.set_study_attribute(AttributeKind::User, request, id).await
    }

    async fn set_study_system_attribute(
        &self,
        request: Request<SetStudySystemAttributeRequest>,
    ) -> Replied<SetStudySystemAttributeReply> {
        let id = request.get_ref().study_id;
        self.set_study_attribute(AttributeKind::System, request, id).await
    }

    async fn get_study_id_from_name(
        &self,
        request: Request<GetStudyIdFromNameRequest>,
    ) -> Replied<GetStudyIdFromNameReply> {
        self.call(use_cases::OPTUNA_GET_STUDY, STUDIES.to_owned(), request, async |service, message| {
            checks::check_name("study_name", &message.study_name)?;
            let study_id = service.storage.study_id(message.study_name).await?;
            done(GetStudyIdFromNameReply { study_id })
        })
        .await
    }

    async fn get_study_name_from_id(
        &self,
        request: Request<GetStudyNameFromIdRequest>,
    ) -> Replied<GetStudyNameFromIdReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_GET_STUDY, study_name(id), request, async move |service, _| {
            done(GetStudyNameFromIdReply { study_name: service.storage.study_name(id).await? })
        })
        .await
    }

    async fn get_study_directions(
        &self,
        request: Request<GetStudyDirectionsRequest>,
    ) -> Replied<GetStudyDirectionsReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_GET_STUDY, study_name(id), request, async move |service, _| {
            done(GetStudyDirectionsReply { directions: service.storage.study_directions(id).await? })
        })
        .await
    }

    async fn get_study_user_attributes(
        &self,
        request: Request<GetStudyUserAttributesRequest>,
    ) -> Replied<GetStudyUserAttributesReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_GET_STUDY, study_name(id), request, async move |service, _| {
            let user_attributes = service.storage.study_attributes(id, AttributeKind::User).await?;
            done(GetStudyUserAttributesReply { user_attributes })
        })
        .await
    }

    async fn get_study_system_attributes(
        &self,
        request: Request<GetStudySystemAttributesRequest>,
    ) -> Replied<GetStudySystemAttributesReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_GET_STUDY, study_name(id), request, async move |service, _| {
            let system_attributes = service.storage.study_attributes(id, AttributeKind::System).await?;
            done(GetStudySystemAttributesReply { system_attributes })
        })
        .await
    }

    async fn get_all_studies(&self, request: Request<GetAllStudiesRequest>) -> Replied<GetAllStudiesReply> {
        self.call(use_cases::OPTUNA_LIST_STUDIES, STUDIES.to_owned(), request, async |service, _| {
            done(GetAllStudiesReply { studies: service.storage.studies().await? })
        })
        .await
    }

    async fn create_new_trial(&self, request: Request<CreateNewTrialRequest>) -> Replied<CreateNewTrialReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_CREATE_TRIAL, study_name(id), request, async move |service, message| {
            let trial = match (message.template_trial_is_none, message.template_trial) {
                (true, _) => Trial { datetime_start: service.now(), ..Trial::default() },
                (false, Some(template)) => {
                    checks::check_template(&template)?;
                    template
                }
                (false, None) => return Err(StorageError::invalid("template_trial", "missing")),
            };
            let state = checks::state(trial.state)?;
            let trial_id = service.storage.create_trial(id, trial).await?;
            service.state_changed(trial_id, state);
            created(CreateNewTrialReply { trial_id }, trial_name(trial_id))
        })
        .await
    }

    async fn set_trial_parameter(&self, request: Request<SetTrialParameterRequest>) -> Replied<SetTrialParameterReply> {
        let id = request.get_ref().trial_id;
        self.call(use_cases::OPTUNA_SET_PARAMETER, trial_name(id), request, async move |service, message| {
            let SetTrialParameterRequest { param_name: name, param_value_internal: value, distribution, .. } = message;
            checks::check_parameter(&name, &distribution)?;
            service.renew(id);
            service.storage.set_parameter(id, Parameter { name, value, distribution }).await?;
            done(SetTrialParameterReply {})
        })
        .await
    }

    async fn get_trial_id_from_study_id_trial_number(
        &self,
        request: Request<GetTrialIdFromStudyIdTrialNumberRequest>,
    ) -> Replied<GetTrialIdFromStudyIdTrialNumberReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_GET_TRIAL, study_name(id), request, async move |service, message| {
            let trial_id = service.storage.trial_id(id, message.trial_number).await?;
            done(GetTrialIdFromStudyIdTrialNumberReply { trial_id })
        })
        .await
    }

    async fn set_trial_state_values(
        &self,
        request: Request<SetTrialStateValuesRequest>,
    ) -> Replied<SetTrialStateValuesReply> {
        let id = request.get_ref().trial_id;
        self.call(use_cases::OPTUNA_SET_STATE, trial_name(id), request, async move |service, message| {
            let state = checks::state(message.state)?;
            checks::check_values(&message.values)?;
            service.renew(id);
            let trial_updated = service.storage.set_state(id, state, message.values, service.now()).await?;
            if trial_updated {
                service.state_changed(id, state);
            }
            done(SetTrialStateValuesReply { trial_updated })
        })
        .await
    }

    async fn set_trial_intermediate_value(
        &self,
        request: Request<SetTrialIntermediateValueRequest>,
    ) -> Replied<SetTrialIntermediateValueReply> {
        let id = request.get_ref().trial_id;
        self.call(use_cases::OPTUNA_SET_INTERMEDIATE_VALUE, trial_name(id), request, async move |service, message| {
            let SetTrialIntermediateValueRequest { step, intermediate_value, .. } = message;
            service.renew(id);
            service.storage.set_intermediate_value(id, step, intermediate_value).await?;
            done(SetTrialIntermediateValueReply {})
        })
        .await
    }

    async fn set_trial_user_attribute(
        &self,
        request: Request<SetTrialUserAttributeRequest>,
    ) -> Replied<SetTrialUserAttributeReply> {
        let id = request.get_ref().trial_id;
        self.set_trial_attribute(AttributeKind::User, request, id).await
    }

    async fn set_trial_system_attribute(
        &self,
        request: Request<SetTrialSystemAttributeRequest>,
    ) -> Replied<SetTrialSystemAttributeReply> {
        let id = request.get_ref().trial_id;
        self.set_trial_attribute(AttributeKind::System, request, id).await
    }

    async fn get_trial(&self, request: Request<GetTrialRequest>) -> Replied<GetTrialReply> {
        let id = request.get_ref().trial_id;
        self.call(use_cases::OPTUNA_GET_TRIAL, trial_name(id), request, async move |service, _| {
            service.renew(id);
            done(GetTrialReply { trial: Some(service.storage.trial(id).await?) })
        })
        .await
    }

    async fn get_trials(&self, request: Request<GetTrialsRequest>) -> Replied<GetTrialsReply> {
        let id = request.get_ref().study_id;
        self.call(use_cases::OPTUNA_LIST_TRIALS, study_name(id), request, async move |service, message| {
            let included = message.included_trial_ids;
            if included.len() > INCLUDED_TRIALS {
                let reason = format!("{} IDs; the maximum is {INCLUDED_TRIALS}", included.len());
                return Err(StorageError::invalid("included_trial_ids", reason));
            }
            done(GetTrialsReply { trials: service.storage.trials(id, included, message.trial_id_greater_than).await? })
        })
        .await
    }
}
