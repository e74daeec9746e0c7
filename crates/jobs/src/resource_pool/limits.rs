//! Limits on running trials.

use tunesmith_domain::JobId;

/// Limits on concurrently running trials; `None` for unlimited. A job without hyperparameters counts as one trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunningLimits {
    /// Total.
    pub cluster: Option<u32>,
    /// Per project.
    pub project: Option<u32>,
    /// Per principal; jobs without one are unlimited.
    pub principal: Option<u32>,
    /// Per study.
    pub study: Option<u32>,
}

impl RunningLimits {
    /// Limit that prevents a trial of `job` from running beside `running` (jobs and principals, of this server or all).
    pub(super) fn reached<'a>(
        &self,
        job: &JobId,
        principal: Option<&str>,
        running: impl Iterator<Item = (&'a JobId, Option<&'a str>)>,
        of_servers: bool,
    ) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let project = job.parts().0;
        let [mut in_all, mut of_project, mut of_principal, mut of_study] = [0_u32; 4];
        for (other, other_principal) in running {
            in_all += 1;
            of_project += u32::from(other.parts().0 == project);
            of_principal += u32::from(principal.is_some() && other_principal == principal);
            of_study += u32::from(other == job);
        }
        let limits = [
            (self.study, of_study, format!("of the study of job {job}")),
            (self.principal.filter(|_| principal.is_some()), of_principal, {
                format!("of principal {}", principal.unwrap_or_default())
            }),
            (self.project, of_project, format!("of project {project}")),
            (self.cluster, in_all, if of_servers { "of all servers" } else { "of this server" }.to_owned()),
        ];
        limits.into_iter().find_map(|(limit, running, whose)| {
            let limit = limit.filter(|limit| running >= *limit)?;
            Some(format!("the limit on running trials {whose} is reached: {running} of {limit} run"))
        })
    }
}
