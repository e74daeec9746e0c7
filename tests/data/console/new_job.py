"""Fills in the form of a new job and its text, each of which follows the other, and submits it by keyboard only."""

import hashlib
import io
import re
import zipfile

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

TEXT = """\
trainingInput:
  hyperparameters:
    goal: MINIMIZE  # less is better
    hyperparameterMetricTag: loss
    maxTrials: 2
    enableTrialEarlyStopping: false
    params:
    - {parameterName: rate, type: DOUBLE, minValue: 1e-5, maxValue: 1}
  masterConfig:
    containerCommand: [sh, -c, 'echo loss=0.5']  # prints a result
  tunesmith: {metricFromStdout: true}
"""

with opened(viewport={"width": 1280, "height": 844}) as page:
    page.goto("/console/new")
    text = page.get_by_label("Configuration in YAML or JSON")
    trials = page.get_by_label("Trials in all")
    goal = page.locator("select[data-field=goal]")
    expect(trials).to_have_value("20")

    # The text is shown in the form; what the form does not show is named.
    text.fill(TEXT)
    expect(trials).to_have_value("2")
    expect(page.locator("#not-shown")).to_contain_text("trainingInput.hyperparameters.enableTrialEarlyStopping")
    expect(page.locator("#not-shown")).to_contain_text("trainingInput.masterConfig")
    expect(page.get_by_label("Lowest")).to_have_value("1e-5")
    expect(page.get_by_role("button", name="Remove parameter 1")).to_be_disabled()

    # A change of the form is a change of one value in the text, which keeps its comments.
    trials.fill("3")
    trials.press("Tab")
    expect(text).to_have_value(TEXT.replace("maxTrials: 2", "maxTrials: 3"))
    goal.select_option("MAXIMIZE")
    changed = TEXT.replace("maxTrials: 2", "maxTrials: 3").replace("goal: MINIMIZE", "goal: MAXIMIZE")
    expect(text).to_have_value(changed)

    # The template has no remark, and the documentation of its keys is one click away.
    page.goto("/console/new")
    expect(page.get_by_text("The configuration is valid.", exact=True)).to_be_visible()
    expect(page.locator(".numbers .warning, .numbers .error")).to_have_count(0)
    page.get_by_role("link", name="all keys of a configuration").click()
    page.wait_for_url("**/console/keys")
    page.get_by_role("link", name="hyperparameters", exact=True).click()
    expect(page.get_by_role("region", name="trainingInput.hyperparameters", exact=True)).to_contain_text("maxParallelTrials")
    page.goto("/console/new")
    text.fill(changed)
    expect(trials).to_have_value("3")

    # Errors are shown beside their fields and at their place in the text.
    trials.fill("none")
    trials.press("Tab")
    marked = page.locator(".numbers .error")
    expect(marked).to_have_text("5")
    expect(marked).to_have_attribute("title", re.compile("^trainingInput.hyperparameters.maxTrials: "))
    expect(trials).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#study .problem")).to_be_visible()
    expect(page.get_by_text("The configuration has errors.")).to_be_visible()
    trials.fill("3")
    trials.press("Tab")
    expect(page.locator("#study .problem")).to_have_count(0)
    expect(text).to_have_value(changed)

    # Text that cannot be read disables nothing but the form.
    text.fill("trainingInput: [")
    expect(page.get_by_text("The configuration cannot be read.", exact=False)).to_be_visible()
    expect(trials).to_be_hidden()
    text.fill("trainingInput:\n  masterConfig: {containerCommand: [echo, done]}\n")
    add = page.get_by_role("button", name="Tune hyperparameters")
    add.press("Enter")
    expect(goal).to_be_focused()
    expect(page.get_by_label("Parameter name")).to_have_value("parameter_1")

    # What cannot be changed in the text is refused, with the reason.
    text.fill("trainingInput:\n  hyperparameters: &h {goal: MINIMIZE, params: [{parameterName: x}]}\nother: *h\n")
    expect(goal).to_have_value("MINIMIZE")
    goal.select_option("MAXIMIZE")
    expect(page.get_by_role("alert")).to_contain_text("because of the way in which the configuration is written")
    expect(goal).to_have_value("MINIMIZE")

    # By keyboard only: a parameter with categories, its removal, and the submission.
    page.reload()
    expect(trials).to_have_value("20")
    text.fill(TEXT)
    expect(trials).to_have_value("2")
    button = page.get_by_role("button", name="Add a parameter")
    button.press("Enter")
    second = page.get_by_role("group", name="Parameter 2")
    name = second.get_by_label("Parameter name")
    expect(name).to_be_focused()
    page.keyboard.type("<img src=x onerror=injected()>")
    page.keyboard.press("Tab")
    expect(second.get_by_label("Type")).to_be_focused()
    page.keyboard.type("category")
    page.keyboard.press("Tab")
    categories = second.get_by_label("Categories")
    expect(categories).to_have_value("a\nb")
    categories.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("adam\nplain sgd")
    page.keyboard.press("Tab")
    expect(text).to_have_value(TEXT.replace("  masterConfig:", """\
    - {parameterName: "<img src=x onerror=injected()>", type: CATEGORICAL, categoricalValues: [adam, "plain sgd"]}
  masterConfig:"""))
    photograph(page, "new-job-form")
    button.press("Enter")
    expect(page.get_by_role("group")).to_have_count(3)
    page.get_by_role("button", name="Remove parameter 3").press("Enter")
    expect(page.get_by_role("group")).to_have_count(2)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        is_within_width(page)
        form, side = page.locator("#study").bounding_box(), text.bounding_box()
        is_above = form["y"] + form["height"] <= side["y"]
        assert is_above == (width == 390), (width, form, side)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    photograph(page, "new-job-form-narrow")
    page.get_by_label("Project").fill("p")
    page.get_by_label("Name", exact=True).fill("submitted")
    page.get_by_label("Name", exact=True).press("Enter")
    page.wait_for_url("**/console/projects/p/jobs/submitted")
    expect(page.locator("[data-live=badge]")).to_have_text("Succeeded")
    page.get_by_text("checks passed").click()
    expect(page.get_by_text("2 of 2 ended trials have reported a metric")).to_be_visible()

    # A package is uploaded under its digest, and named in the text.
    page.goto("/console/new")
    page.get_by_label("Project").fill("p")
    expect(trials).to_have_value("20")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("trainer-1.0/setup.py", "from setuptools import setup; setup(name='trainer', packages=['trainer'])")
    content = archive.getvalue()
    page.set_input_files("#package", {"name": "trainer-1.0.zip", "mimeType": "application/zip", "buffer": content})
    expect(page.locator("#package-note")).to_contain_text("trainer-1.0.zip is in packageUris")
    digest = hashlib.sha256(content).hexdigest()
    uri = f"tunesmith://projects/p/packages/{digest}/trainer-1.0.zip"
    expect(text).to_have_value(re.compile(rf'\n  packageUris: \["{uri}"\]\n'))
    assert page.request.get(f"/v1/projects/p/packages/{digest}/trainer-1.0.zip").status == 200

    # A job like this one, with another range.
    page.goto("/console/projects/p/jobs/submitted")
    page.get_by_role("link", name="New job from this").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("New job from submitted")
    expect(page.get_by_label("Project")).to_have_value("p")
    expect(page.get_by_label("Name", exact=True)).to_have_value("submitted_2")
    page.get_by_label("Name", exact=True).fill("similar")
    page.get_by_label("Name", exact=True).press("Enter")
    page.wait_for_url("**/console/projects/p/jobs/similar")
    expect(page.locator("[data-live=badge]")).to_have_text("Succeeded")

    # A study without a job has the same form; its values are elsewhere in the text.
    page.set_viewport_size({"width": 1280, "height": 844})
    page.goto("/console/jobs")
    page.get_by_role("link", name="New study").click()
    page.wait_for_url("**/console/new-study")
    expect(page.get_by_text("The configuration is valid.", exact=False)).to_be_visible()
    expect(trials).to_have_value("100")
    expect(page.get_by_label("Trials at once")).to_have_count(0)
    expect(page.get_by_label("Lowest").first).to_have_value("1e-5")
    trials.fill("0")
    trials.press("Tab")
    expect(trials).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#study .problem")).to_contain_text("at least 1")
    expect(page.get_by_role("button", name="Go to line 7, column 14")).to_be_visible()
    expect(page.get_by_text("The configuration has errors.")).to_be_visible()
    trials.fill("30")
    trials.press("Tab")
    goal.select_option("MAXIMIZE")
    expect(text).to_have_value(re.compile("goal: MAXIMIZE"))
    second = page.get_by_role("group", name="Parameter 2")
    second.get_by_label("Type").select_option(label="category")
    expect(second.get_by_label("Categories")).to_have_value("a\nb")
    expect(text).to_have_value(re.compile(r"\{parameter: layers, type: CATEGORICAL, categoricalValueSpec: \{values: \[a, b\]\}\}"))
    page.get_by_role("button", name="Add a parameter").click()
    expect(page.get_by_role("group")).to_have_count(3)
    photograph(page, "new-study-form")
    page.get_by_label("Project").fill("p")
    page.get_by_label("Name", exact=True).fill("by-hand")
    page.get_by_role("button", name="Create study").click()
    page.wait_for_url("**/console/projects/p/locations/local/studies/by-hand")
    expect(page.locator("[data-live=badge]")).to_have_text("Active")
    page.goto("/console/projects/p/locations/local/studies/by-hand/trials")
    page.get_by_role("button", name="Add a trial").click()
    expect(page.locator('dialog[open] [data-parameter="parameter_3"]')).to_be_visible()
