//! `tunesmith import`: configurations from files of other tools.

use tunesmith_testing::python::{VIZIER_CLIENTS, interpreter};
use tunesmith_testing::{Finished, Workspace, finished, program};

fn import(workspace: &Workspace, arguments: &[&str]) -> Finished {
    finished(workspace.command().arg("import").args(arguments).output().unwrap())
}

const SWEEP: &str = "\
program: train.py
method: random
metric: {name: loss, goal: minimize, target: 0.1}
parameters:
  x: {min: 0.5, max: 1.5}
  k: {values: [a, b]}
  fixed: {value: true}
command: [sh, train.sh, '${args_no_hyphens}']
run_cap: 3
";

#[test]
fn sweep_runs_with_the_arguments_of_its_command() {
    let workspace = Workspace::new("");
    workspace.write("sweep.yaml", SWEEP);
    workspace.write("train.sh", "echo \"$@\"; echo loss=${3#x=}\n");
    let refused = import(&workspace, &["wandb", "sweep.yaml", "--output", "job.yaml"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("sweep.yaml:3:46") && refused.stderr.contains("metric.target"),
        "{}",
        refused.stderr
    );
    let accepted = import(&workspace, &["wandb", "sweep.yaml", "--output", "job.yaml", "--accept-losses"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    let written = workspace.read("job.yaml");
    assert!(written.contains("# Lost: metric.target has no counterpart"), "{written}");
    let again = import(&workspace, &["wandb", "sweep.yaml", "--output", "job.yaml", "--accept-losses"]);
    assert!(again.code != Some(0) && again.stderr.contains("job.yaml exists; give --force"), "{}", again.stderr);
    let mut run = workspace.command();
    run.args(["run", "--config", "job.yaml", "--job-id", "swept", "--data-dir", "data"]);
    let ran = finished(run.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let log = workspace.read("data/jobs/swept/trials/1/attempt-1/stdout.log");
    let words: Vec<&str> = log.lines().next().unwrap().split(' ').collect();
    assert_eq!(words.len(), 3, "{log}");
    assert_eq!(words[0], "fixed=True");
    assert!(["k=a", "k=b"].contains(&words[1]) && words[2].starts_with("x="), "{log}");
}

/// Trials of Optuna in a journal and in a database, with a condition, a pruned trial and a failed one.
const OPTUNA: &str = "
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
optuna.logging.set_verbosity(optuna.logging.WARNING)

def objective(trial):
    kind = trial.suggest_categorical('kind', ['tree', 'net', None])
    rate = trial.suggest_float('rate', 1e-4, 1.0, log=True)
    part = trial.suggest_float('part', 0.0, 1.0, step=0.25)
    width = trial.suggest_int('width', 8, 64, step=8) if kind == 'net' else 8
    trial.report(rate, 4)
    trial.report(rate / 2, 9)
    if trial.number == 3:
        raise optuna.TrialPruned()
    if trial.number == 4:
        raise ValueError('bad')
    return rate + part + width / 100

for storage in [JournalStorage(JournalFileBackend('journal.log')), 'sqlite:///study.db']:
    study = optuna.create_study(study_name='first study', storage=storage, direction='maximize', sampler=optuna.samplers.RandomSampler(seed=1))
    study.set_metric_names(['score'])
    study.optimize(objective, n_trials=20, catch=(ValueError,))
    study.enqueue_trial({'kind': 'tree', 'rate': 0.5, 'part': 0.25})
    study.enqueue_trial({'kind': 'tree'})
optuna.create_study(study_name='empty', storage='sqlite:///study.db')
best = study.best_trial
print(best.value, best.params['rate'])
";

#[test]
fn studies_of_optuna_keep_their_results() {
    let workspace = Workspace::new("");
    let mut command = program(interpreter(&["optuna==5.0.0"]));
    let made = finished(command.args(["-c", OPTUNA]).current_dir(workspace.path()).output().unwrap());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let best: Vec<f64> = made.stdout.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let several = import(&workspace, &["optuna", "study.db", "--data-dir", "data"]);
    assert!(several.code != Some(0) && several.stderr.contains("\"first study\", \"empty\""), "{}", several.stderr);
    for source in ["journal.log", "sqlite:///study.db"] {
        let id = if source == "journal.log" { "one" } else { "first_study" };
        let mut arguments = vec!["optuna", source, "--study", "first study", "--data-dir", "data"];
        let strict = import(&workspace, &arguments);
        assert_eq!(strict.code, Some(2), "{}", strict.stderr);
        assert!(strict.stderr.contains("error: 1 trials are waiting without a value"), "{}", strict.stderr);
        arguments.push("--accept-losses");
        if id == "one" {
            arguments.extend(["--study-id", "one"]);
        }
        let imported = import(&workspace, &arguments);
        assert_eq!(imported.code, Some(0), "{}", imported.stderr);
        assert!(imported.stderr.contains("width depends on kind: net"), "{}", imported.stderr);
        assert!(imported.stderr.contains(&format!("created the study {id} with 21 trials")), "{}", imported.stderr);
        let again = import(&workspace, &arguments);
        assert!(again.code != Some(0) && again.stderr.contains("exists"), "{}", again.stderr);
        let mut list = workspace.command();
        list.args(["trials", "list", "--study", id, "--data-dir", "data", "--format", "json", "--limit", "100"]);
        let list = finished(list.output().unwrap());
        assert_eq!(list.code, Some(0), "{}", list.stderr);
        let trials: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
        let trials = trials.as_array().unwrap();
        let value = |trial: &serde_json::Value| trial["finalMeasurement"]["metrics"][0]["value"].as_f64();
        let top = trials.iter().max_by(|a, b| value(a).partial_cmp(&value(b)).unwrap()).unwrap();
        assert_eq!(value(top), Some(best[0]));
        let parameters = top["parameters"].as_array().unwrap();
        let rate = parameters.iter().find(|parameter| parameter["parameter"] == "rate").unwrap();
        assert_eq!(rate["floatValue"].as_f64(), Some(best[1]));
        assert_eq!(trials.iter().filter(|trial| trial["trialInfeasible"] == true).count(), 1);
        assert_eq!(trials[3]["tunesmith"]["stoppedEarly"], true);
        assert_eq!(trials[3]["finalMeasurement"], trials[3]["measurements"][1]);
        assert_eq!(trials[3]["measurements"][0]["stepCount"], "4");
        let queued: Vec<_> = trials.iter().filter(|trial| trial["state"] == "REQUESTED").collect();
        assert_eq!(queued.len(), 1);
        assert_eq!(queued[0]["parameters"][0], serde_json::json!({"parameter": "kind", "stringValue": "tree"}));
        compare_with_export(&workspace, id);
        let mut suggest = workspace.command();
        suggest.args(["trials", "suggest", "--study", id, "--data-dir", "data", "--client-id", "w"]);
        assert_eq!(finished(suggest.output().unwrap()).code, Some(0));
    }
}

/// Exports the study `id` again, reads it with Optuna, and compares states, values and curves with those of the source.
fn compare_with_export(workspace: &Workspace, id: &str) {
    let output = format!("{id}.log");
    let export = ["export", "optuna", "--study", id, "--data-dir", "data", "--output", &output];
    finished(workspace.command().args(export).output().unwrap()).expect(0);
    let script = format!(
        "
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
def of(path, name):
    study = optuna.load_study(study_name=name, storage=JournalStorage(JournalFileBackend(path)))
    return study.metric_names, [(t.state.name, t.value, t.intermediate_values, t.params.get('rate')) for t in study.trials]
names, trials = of('journal.log', 'first study')
copied_names, copied = of('{output}', {id:?})
assert names == copied_names == ['score'], copied_names
assert [t[0] for t in trials].count('PRUNED') == 1
assert [t for t in trials if t[0] != 'WAITING'] == [t for t in copied if t[0] != 'WAITING'], (trials, copied)
assert [t[0] for t in copied].count('WAITING') == 1
"
    );
    let mut command = program(interpreter(&["optuna==5.0.0"]));
    finished(command.args(["-c", &script]).current_dir(workspace.path()).output().unwrap()).expect(0);
}

#[test]
fn sweeps_of_the_tests_are_valid_for_weights_and_biases() {
    let workspace = Workspace::new("");
    workspace.write("sweep.yaml", SWEEP);
    let script = "
import yaml
from sweeps.config import schema_violations_from_proposed_config
config = yaml.safe_load(open('sweep.yaml'))
assert not schema_violations_from_proposed_config(config), schema_violations_from_proposed_config(config)
";
    let mut command = program(interpreter(&["sweeps==0.3.0", "setuptools<80"]));
    let checked = finished(command.args(["-c", script]).current_dir(workspace.path()).output().unwrap());
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

/// Opens the exports with their own readers, and prints what the tests compare.
const READ_EXPORTS: &str = "
import json, sys
import optuna
import pyarrow.parquet
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
optuna.logging.set_verbosity(optuna.logging.WARNING)
storage = JournalStorage(JournalFileBackend('exported.log'))
study = optuna.load_study(study_name='tuned', storage=storage)
optuna.copy_study(from_study_name='tuned', from_storage=storage, to_storage='sqlite:///copied.db')
copied = optuna.load_study(study_name='tuned', storage='sqlite:///copied.db')
assert [t.values for t in copied.trials] == [t.values for t in study.trials]
table = pyarrow.parquet.read_table('trials.parquet')
print(json.dumps({
    'direction': study.direction.name, 'metrics': study.metric_names,
    'trials': [[t.number, t.state.name, t.value, t.params, t.intermediate_values] for t in study.trials],
    'minutes': all((t.datetime_complete - t.datetime_start).total_seconds() < 60 for t in study.trials),
    'reasons': [t.user_attrs.get('tunesmith:reason') for t in study.trials],
    'schema': {field.name: str(field.type) for field in table.schema},
    'columns': {name: table[name].to_pylist() for name in ['trial_id', 'state', 'objective_value', 'n', 'rate', 'kind', 'size', 'stopped_early']},
}))
study.sampler = optuna.samplers.TPESampler(seed=1)
study.ask({name: dist for t in study.trials[:1] for name, dist in t.distributions.items()})
";

#[test]
fn exports_are_read_by_optuna_and_pyarrow() {
    let workspace = Workspace::new(
        "hyperparameters:\n  goal: MAXIMIZE\n  hyperparameterMetricTag: score\n  maxTrials: 9\n  maxFailedTrials: 9\n  \
         algorithm: RANDOM_SEARCH\n  params:\n  - {parameterName: n, type: INTEGER, minValue: 1, maxValue: 9}\n  \
         - {parameterName: rate, type: DOUBLE, minValue: 0.001, maxValue: 1, scaleType: UNIT_LOG_SCALE}\n  \
         - {parameterName: kind, type: CATEGORICAL, categoricalValues: [tree, net]}\n  \
         - {parameterName: size, type: DISCRETE, discreteValues: [0.5, 8, 32]}\n\
         tunesmith: {metricFromStdout: true, seed: 3}\n",
    );
    let trainer = "for a in \"$@\"; do case $a in --n=*) n=${a#--n=};; esac; done\n[ $n -lt 8 ] || exit 3\n\
                   echo score=1 step=1; echo score=$n step=2\n";
    workspace.write("train.sh", trainer);
    workspace.run(["--job-id", "tuned", "--data-dir", "data", "--", "sh", "train.sh"]).expect(0);
    let tunesmith = |arguments: &[&str]| finished(workspace.command().args(arguments).output().unwrap());
    let of_job = ["--job", "tuned", "--data-dir", "data"];
    let export = ["export", "optuna", "--output", "exported.log"];
    let exported = tunesmith(&[&export[..], &of_job].concat()).expect(0);
    assert_eq!(exported.stdout, "exported job tuned with 9 trials to study \"tuned\" in exported.log\n");
    let again = tunesmith(&[&export[..], &of_job].concat()).expect(2);
    assert!(again.stderr.contains("exported.log exists"), "{}", again.stderr);
    let table = ["trials", "export", "--format", "parquet"];
    let refused = tunesmith(&[&table[..], &of_job].concat()).expect(2);
    assert!(refused.stderr.contains("--format parquet: give the file with --output"), "{}", refused.stderr);
    tunesmith(&[&table[..], &["--output", "trials.parquet"], &of_job].concat()).expect(0);
    let mut command = program(interpreter(&["optuna==5.0.0", "pyarrow==26.0.1"]));
    let read = finished(command.args(["-c", READ_EXPORTS]).current_dir(workspace.path()).output().unwrap()).expect(0);
    let found: serde_json::Value = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!((&found["direction"], &found["metrics"]), (&"MAXIMIZE".into(), &serde_json::json!(["score"])));
    assert_eq!(found["minutes"], true);
    let schema = serde_json::json!({
        "trial_id": "int64", "state": "string", "objective_value": "double", "training_step": "int64",
        "stopped_early": "bool", "reason": "string", "start_time": "timestamp[us, tz=UTC]",
        "end_time": "timestamp[us, tz=UTC]", "recommended": "bool", "n": "int64", "rate": "double", "kind": "string",
        "size": "double",
    });
    assert_eq!(found["schema"], schema);
    let trials = workspace.trials();
    assert!(trials.iter().any(|trial| trial["state"] == "INFEASIBLE"));
    for (index, trial) in trials.iter().enumerate() {
        let [number, state, value, parameters, curve] = found["trials"][index].as_array().unwrap().as_slice() else {
            panic!("{found}");
        };
        assert_eq!(number, index);
        let n: i64 = trial["n"].parse().unwrap();
        let expected = serde_json::json!({
            "n": n, "rate": trial["rate"].parse::<f64>().unwrap(), "kind": trial["kind"],
            "size": trial["size"].parse::<f64>().unwrap(),
        });
        assert_eq!(*parameters, expected);
        let column = |name: &str| &found["columns"][name][index];
        for name in ["n", "rate", "kind", "size"] {
            assert_eq!(column(name), &expected[name]);
        }
        assert_eq!((column("trial_id"), column("stopped_early")), (&serde_json::json!(index + 1), &false.into()));
        let (expected_state, expected_value, expected_curve) = match trial["state"].as_str() {
            "SUCCEEDED" => ("COMPLETE", serde_json::json!(n as f64), serde_json::json!({"1": 1.0, "2": n as f64})),
            _ => ("FAIL", serde_json::Value::Null, serde_json::json!({})),
        };
        assert_eq!((state, value, curve), (&expected_state.into(), &expected_value, &expected_curve));
        assert_eq!(column("objective_value"), &expected_value);
        let reason = (expected_state == "FAIL").then_some("exit code 3");
        assert_eq!(found["reasons"][index].as_str(), reason);
    }
}

/// Trials in the database of an OSS Vizier service: completed, infeasible, active and requested.
const VIZIER: &str = "
import random
import sqlalchemy
from vizier._src.service import sql_datastore, study_pb2
from vizier.service import pyvizier as vz
store = sql_datastore.SQLDataStore(sqlalchemy.create_engine('sqlite:///vizier.db'))
config = vz.StudyConfig(algorithm='RANDOM_SEARCH')
root = config.search_space.root
root.add_float_param('rate', 1e-4, 1.0, scale_type=vz.ScaleType.LOG)
root.add_int_param('depth', 1, 9)
root.add_discrete_param('batch', [16, 32, 64])
kind = root.add_categorical_param('kind', ['tree', 'net'])
kind.select_values(['net']).add_float_param('dropout', 0.0, 0.5)
config.metric_information.append(vz.MetricInformation('score', goal=vz.ObjectiveMetricGoal.MAXIMIZE))
for name in ['rates', 'empty']:
    store.create_study(study_pb2.Study(name=f'owners/me/studies/{name}', display_name=name, study_spec=config.to_proto()))
best = (0, 0, 0)
for number in range(1, 10):
    random.seed(number)
    rate, depth, batch, kind = random.uniform(1e-4, 1), random.randint(1, 9), random.choice([16, 32, 64]), random.choice(['tree', 'net'])
    parameters = {'rate': rate, 'depth': depth, 'batch': batch, 'kind': kind, **({'dropout': 0.25} if kind == 'net' else {})}
    trial = vz.Trial(id=number, parameters=parameters, is_requested=number == 9)
    if number == 3:
        trial.complete(vz.Measurement(), infeasibility_reason='out of memory')
    elif number < 8:
        trial.measurements.append(vz.Measurement({'score': rate / 2}, steps=1))
        trial.complete(vz.Measurement({'score': rate}, steps=4))
        best = max(best, (rate, depth, batch))
    elif number == 8:
        trial.assigned_worker = 'w'
    message = vz.TrialConverter.to_proto(trial)
    message.name = f'owners/me/studies/rates/trials/{number}'
    store.create_trial(message)
print(*best)
";

#[test]
fn studies_of_oss_vizier_keep_their_results() {
    let workspace = Workspace::new("");
    let mut command = program(interpreter(&VIZIER_CLIENTS));
    let made = finished(command.args(["-c", VIZIER]).current_dir(workspace.path()).output().unwrap());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let best: Vec<f64> = made.stdout.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let several = import(&workspace, &["vizier", "vizier.db", "--data-dir", "data"]);
    let names = "\"owners/me/studies/empty\", \"owners/me/studies/rates\"";
    assert!(several.code != Some(0) && several.stderr.contains(names), "{}", several.stderr);
    let mut arguments =
        vec!["vizier", "sqlite:///vizier.db", "--study", "owners/me/studies/rates", "--data-dir", "data"];
    let strict = import(&workspace, &arguments);
    assert_eq!(strict.code, Some(2), "{}", strict.stderr);
    assert!(strict.stderr.contains("error: 1 trials are running"), "{}", strict.stderr);
    arguments.push("--accept-losses");
    let imported = import(&workspace, &arguments).expect(0);
    assert!(imported.stderr.contains("created the study rates with 8 trials"), "{}", imported.stderr);
    let list = ["trials", "list", "--study", "rates", "--data-dir", "data", "--format", "json", "--limit", "100"];
    let list = finished(workspace.command().args(list).output().unwrap()).expect(0);
    let trials: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let trials = trials.as_array().unwrap();
    let value = |trial: &serde_json::Value| trial["finalMeasurement"]["metrics"][0]["value"].as_f64();
    let top = trials.iter().max_by(|a, b| value(a).partial_cmp(&value(b)).unwrap()).unwrap();
    let parameter = |name: &str| {
        let parameters = top["parameters"].as_array().unwrap();
        parameters.iter().find(|parameter| parameter["parameter"] == name).unwrap().clone()
    };
    assert_eq!(value(top), Some(best[0]));
    assert_eq!(parameter("rate")["floatValue"].as_f64(), Some(best[0]));
    assert_eq!(parameter("depth")["intValue"], best[1].to_string());
    assert_eq!(parameter("batch")["floatValue"].as_f64(), Some(best[2]));
    assert_eq!(top["measurements"][0]["metrics"][0]["value"].as_f64(), Some(best[0] / 2.0));
    let infeasible: Vec<_> = trials.iter().filter(|trial| trial["trialInfeasible"] == true).collect();
    assert_eq!(infeasible.len(), 1);
    assert_eq!(infeasible[0]["infeasibleReason"], "out of memory");
    let queued: Vec<_> = trials.iter().filter(|trial| trial["state"] == "REQUESTED").collect();
    assert_eq!(queued.len(), 1);
    let suggest = ["trials", "suggest", "--study", "rates", "--data-dir", "data", "--client-id", "w"];
    finished(workspace.command().args(suggest).output().unwrap()).expect(0);
    workspace.write("broken.json", "{\"displayName\": \"d\", \"studySpec\": {\"metric\": []}}");
    let refused = import(&workspace, &["vizier", "broken.json", "--data-dir", "data"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("broken.json:1") && refused.stderr.contains("studySpec.metric"),
        "{}",
        refused.stderr
    );
}
