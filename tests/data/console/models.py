"""Makes the best trial of a job a model, predicts with it, and deletes it; python models.py ENDPOINT ADMIN VIEWER FILES"""

import json
import sys

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

ADMIN, VIEWER, FILES = sys.argv[2:5]
ROWS = [[6.7, 3.1, 4.7, 1.5], [4.6, 3.1, 1.5, 0.2]]


def signed_in(page, token, place):
    page.goto(place)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**" + place)


def checked(page, name):
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            is_within_width(page)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            photograph(page, f"{name}-{width}-{scheme}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})


def confirmed(page, name, action):
    """Clicks the button `name`, and confirms the question."""
    page.get_by_role("button", name=name).click()
    page.get_by_role("dialog").get_by_role("button", name=action).click()


# The name of a model that exists is no error.
with opened(expected="status of 409", viewport={"width": 1440, "height": 900}) as page:
    signed_in(page, ADMIN, "/console/models")
    expect(page.get_by_text("No models yet")).to_be_visible()
    checked(page, "models-empty")

    page.goto("/console/projects/p/jobs/iris_search")
    expect(page.locator(".head").first).to_contain_text("SUCCEEDED", ignore_case=True)
    page.get_by_role("button", name="Create a model").click()
    dialog = page.get_by_role("dialog", name="Create a model from iris_search")
    dialog.get_by_label("Model", exact=False).first.wait_for()
    dialog.locator("input[name=model]").fill("iris")
    dialog.locator("input[name=version]").fill("first")
    photograph(page, "model-dialog")
    dialog.get_by_role("button", name="Create model").click()
    page.wait_for_url("**/console/projects/p/models/iris?version=first")
    row = page.get_by_role("row", name="first")
    expect(row).to_contain_text("READY", ignore_case=True)
    expect(row).to_contain_text("of iris_search")
    expect(row).to_contain_text("default")

    field = page.get_by_label("Request in JSON")
    field.fill(json.dumps({"instances": ROWS}))
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("region", name="Response")).to_contain_text('{"predictions": [1, 0]}')
    expect(row.locator("td").nth(3)).to_have_text("1")
    field.fill('{"instances": [[1, 2]]}')
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#prediction-error")).to_contain_text("features")
    field.fill(json.dumps({"instances": ROWS}))
    page.get_by_text("The same request from a program").click()
    expect(page.get_by_role("region", name="Request with curl")).to_contain_text("/v1/projects/p/models/iris")
    checked(page, "model")

    # A batch prediction is a job.
    started = page.evaluate("""async (rows) => (await fetch("/v1/projects/p/jobs", {method: "POST", body: JSON.stringify(rows), headers: {
      "content-type": "application/json",
      "x-tunesmith-csrf": document.querySelector("meta[name=csrf]").content}})).status""", {
        "jobId": "rows", "predictionInput": {
            "modelName": "projects/p/models/iris", "dataFormat": "JSON", "region": "r",
            "inputPaths": [FILES + "/rows.json"], "outputPath": FILES + "/predicted"}})
    assert started == 200, started
    page.goto("/console/projects/p/jobs/rows")
    expect(page.locator(".figures")).to_contain_text("projects/p/models/iris")
    expect(page.locator(".figures div", has_text="Predictions").locator("dd")).to_contain_text("2")
    expect(page.locator(".figures div", has_text="Failed instances").locator("dd")).to_have_text("1")
    checked(page, "batch")

    page.goto("/console/models")
    row = page.get_by_role("row", name="iris")
    expect(row).to_contain_text("first")
    expect(row.locator("td").nth(3)).to_contain_text("2")
    checked(page, "models")

    # A version of another trial, which becomes the default.
    page.goto("/console/projects/p/jobs/iris_search/trials/1")
    page.get_by_role("button", name="Create a model").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("input[name=model]").fill("iris")
    dialog.get_by_role("button", name="Create model").click()
    page.wait_for_url("**/console/projects/p/models/iris?version=v_iris_search_1")
    second = page.get_by_role("row", name="v_iris_search_1")
    expect(second).to_contain_text("READY", ignore_case=True)
    confirmed(page, "Make v_iris_search_1 the default", "Make default")
    expect(second.locator("th .label")).to_have_text("default")
    confirmed(page, "Delete version first", "Delete")
    expect(page.get_by_role("button", name="Delete version first")).to_have_count(0)
    confirmed(page, "Delete version v_iris_search_1", "Delete")
    expect(page.get_by_text("No versions")).to_be_visible()
    confirmed(page, "Delete model", "Delete model")
    page.wait_for_url("**/console/models")
    expect(page.get_by_text("No models yet")).to_be_visible()

with opened(viewport={"width": 1440, "height": 900}) as page:
    signed_in(page, VIEWER, "/console/models")
    page.goto("/console/projects/p/jobs/iris_search")
    expect(page.get_by_role("heading", level=1)).to_contain_text("iris_search")
    expect(page.get_by_role("button", name="Create a model")).to_have_count(0)
