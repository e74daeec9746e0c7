//! Uses of the OpenAPI document in JavaScript: a client in TypeScript, and a page of reference in a browser.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tunesmith_http::document;
use tunesmith_testing::console::browse;
use tunesmith_testing::generator::{generate_client, generated_methods};
use tunesmith_testing::server::Server;
use tunesmith_testing::{Workspace, finished, installer, program};

use crate::console_scripts::Checker;

/// IDs of the methods of the document.
fn operations() -> Vec<String> {
    let document = document();
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values().cloned().collect::<Vec<Value>>());
    operations.map(|operation| operation["operationId"].as_str().unwrap().to_owned()).collect()
}

/// Completes a trial with the generated client.
const SCRIPT: &str = r#"
import { Configuration, DefaultApi, GoalType, ParameterType, type StudyInput } from "./client/index";

declare const process: { argv: [string, string, string] };

async function main() {
  const api = new DefaultApi(new Configuration({ basePath: process.argv[2] }));
  const at = { project: "p", location: "l", study: "s" };
  const studyInput: StudyInput = {
    studyConfig: {
      metrics: [{ metric: "loss", goal: GoalType.Minimize }],
      parameters: [{ parameter: "rate", type: ParameterType.Double, doubleValueSpec: { minValue: 0.25, maxValue: "1e0" } }],
    },
  };
  const study = await api.mlProjectsLocationsStudiesCreate({ ...at, studyId: "s", studyInput });
  const suggestTrialsRequest = { suggestionCount: 1, clientId: "worker" };
  await api.mlProjectsLocationsStudiesTrialsSuggest({ ...at, suggestTrialsRequest });
  const finalMeasurement = { stepCount: 1, metrics: [{ metric: "loss", value: 0.5 }] };
  await api.mlProjectsLocationsStudiesTrialsComplete({ ...at, trial: "1", completeTrialRequest: { finalMeasurement } });
  const trial = await api.mlProjectsLocationsStudiesTrialsGet({ ...at, trial: "1" });
  const rate: number | string | null | undefined = trial.parameters?.[0]?.floatValue;
  const value: number | string | undefined = trial.finalMeasurement?.metrics?.[0]?.value;
  console.log(JSON.stringify([study.name, trial.state, typeof rate, value, trial.startTime instanceof Date]));
}

main();
"#;

#[test]
fn client_for_typescript_has_correct_types_and_completes_a_trial() {
    let checker = Checker::new();
    let folder = checker.empty("generated");
    generate_client("typescript-fetch", &folder.join("client"));
    let api = folder.join("client/apis/DefaultApi.ts");
    let generated = generated_methods(&api, "    async ", "Raw(");
    let wanted = operations();
    assert_eq!(generated.len(), wanted.len());
    for id in wanted {
        let is_same = |name: &&String| name.to_lowercase() == id.to_lowercase().replace(['.', '_'], "");
        assert!(generated.iter().any(|name| is_same(&name)), "{id} was not generated");
    }
    fs::write(folder.join("use.ts"), SCRIPT).unwrap();
    fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
    // The generator imports files without their extensions, as CommonJS has it.
    fs::write(folder.join("package.json"), r#"{"type": "commonjs"}"#).unwrap();
    let options = json!({"strict": true, "target": "es2022", "lib": ["es2022", "dom"], "types": [], "module": "commonjs",
        "moduleResolution": "node10", "outDir": "built"});
    let project = json!({"compilerOptions": options, "files": ["use.ts"]});
    fs::write(folder.join("tsconfig.json"), project.to_string()).unwrap();
    let compiled = checker.run("tsc", &["--project", "generated"]);
    assert_eq!((compiled.code, compiled.stdout.as_str()), (Some(0), ""));
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    let output =
        program("node").arg(folder.join("built/use.js")).arg(format!("http://{}", server.address)).output().unwrap();
    let output = finished(output);
    let expected = "[\"projects/p/locations/l/studies/s\",\"COMPLETED\",\"number\",0.5,true]\n";
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), expected), "{}", output.stderr);
}

/// The renderer, whose bundle needs no other package.
const REDOC: &str = "redoc@2.5.4";

/// The folder of the renderer's bundle, downloaded once.
fn bundle() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(REDOC);
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let bundles = folder.join("package/bundles");
    if !bundles.exists() {
        let run = |command: &mut Command| {
            let output = finished(command.current_dir(&folder).output().unwrap());
            assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
        };
        run(installer("npm").args(["pack", "--ignore-scripts", REDOC]));
        run(program("tar").args(["--extract", "--file", "redoc-2.5.4.tgz"]));
    }
    bundles
}

#[test]
fn reference_in_a_browser_shows_every_method() {
    let workspace = Workspace::new("");
    let server = Server::start(&workspace, &[]);
    browse("api_reference.py", &server, &[bundle().to_str().unwrap()]);
}
