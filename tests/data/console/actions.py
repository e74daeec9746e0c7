"""Cancels, changes and deletes a job, and sees the changes without a reload."""

from browser import expect, opened

with opened(expected="status of 400", viewport={"width": 1280, "height": 844}) as page:
    page.goto("/console/projects/p/jobs/waits")
    badge = page.locator("[data-live=badge]")
    expect(badge).to_have_text("Running")
    page.evaluate("window.sameDocument = true")

    # A question that is not confirmed changes nothing.
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_role("button", name="Back").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(badge).to_have_text("Running")

    page.get_by_role("button", name="Cancel job").click()
    page.locator("dialog").get_by_role("button", name="Cancel job").click()
    expect(badge).to_have_text("Cancelled")
    assert page.evaluate("window.sameDocument"), "the page was updated in place"

    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_label("Labels").fill("team=speech\nstage=done")
    page.get_by_role("button", name="Change labels").click()
    expect(page.locator(".head .label").first).to_have_text("stage: done")
    expect(page.locator("dialog[open]")).to_have_count(0)

    # The answer of the server is shown where the labels are given.
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_label("Labels").fill("UPPER=x")
    page.locator("dialog form[data-body=labels]").evaluate("form => form.dataset.url += 'x'")
    page.get_by_role("button", name="Change labels").click()
    expect(page.locator("dialog [role=alert]").filter(has_text="cannot be changed")).to_be_visible()
    page.get_by_role("button", name="Close").click()

    page.get_by_role("button", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/console/jobs")
    expect(page.get_by_text("No jobs yet")).to_be_visible()

    # A job is submitted from its configuration, whose errors are shown in place, by keyboard.
    page.get_by_role("link", name="New job").press("Enter")
    text = page.get_by_label("Configuration")
    expect(page.get_by_text("The configuration is valid.", exact=False)).to_be_visible()
    text.fill("trainingInput:\n  masterConfig: {containerCommand: [echo, done]}\n  unknown: 1\n")
    expect(page.get_by_role("button", name="Go to line 3, column 3")).to_be_visible()
    text.fill("trainingInput:\n  masterConfig: {containerCommand: [echo, done]}\n")
    expect(page.get_by_text("The configuration is valid.", exact=False)).to_be_visible()
    page.get_by_label("Project").fill("p")
    page.get_by_label("Name", exact=True).fill("submitted")
    page.get_by_label("Name", exact=True).press("Enter")
    page.wait_for_url("**/console/projects/p/jobs/submitted")
    expect(page.locator("[data-live=badge]")).to_have_text("Succeeded")
