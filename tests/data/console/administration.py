"""Looks at the pages for administrators, and at the console of a viewer, who does not see them."""

import sys

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

ADMIN, VIEWER = sys.argv[2:4]


def sign_in(page, token, next_page):
    page.goto(next_page)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{next_page}")


def check(page, name):
    is_within_width(page)
    photograph(page, name)
    found = Axe().run(page)
    assert found.violations_count == 0, f"{page.url}\n{found.generate_report()}"


with opened("status of 400", viewport={"width": 1280, "height": 844}) as page:
    sign_in(page, ADMIN, "/console/server")
    expect(page.get_by_role("heading", level=1)).to_have_text("Server")
    expect(page.get_by_text("The server is ready")).to_be_visible()
    expect(page.get_by_text("of 4 in use, 0 jobs queued")).to_be_visible()
    expect(page.get_by_role("region", name="Accelerators").locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("row", name="--request-rate")).to_contain_text("77")
    check(page, "server")

    # Every link of the navigation of an administrator works.
    navigation = page.get_by_role("navigation", name="Main")
    navigation.get_by_role("link", name="Access").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Access")
    tokens = page.get_by_role("region", name="Tokens")
    expect(tokens.locator("tbody tr")).to_have_count(3)
    expect(tokens.get_by_role("row", name="user:admin@x")).to_contain_text("roles/ml.admin")
    unused = tokens.get_by_role("row", name="user:<img")
    expect(unused).to_contain_text("not since the start of the server")
    assert ADMIN not in page.content(), "no page contains a token"
    log = page.get_by_role("region", name="Audit log")
    expect(log.get_by_role("row", name="ml.projects.jobs.create")).to_have_count(1)
    check(page, "access")

    # A colleague gets access; the secret is shown once.
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Owner").fill("ada")
    page.get_by_label("Project").fill("p")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("dialog", name="New token").get_by_role("alert")).to_contain_text("is not a principal")
    page.get_by_label("Owner").fill("user:ada@x")
    check(page, "access-new-token")
    page.get_by_role("button", name="Create token").click()
    shown = page.get_by_role("dialog", name="The new token")
    secret = shown.locator("#secret-text").inner_text()
    assert secret.startswith("tsm_"), secret
    check(page, "access-secret")
    shown.get_by_role("button", name="Done").click()
    expect(tokens.locator("tbody tr")).to_have_count(4)
    assert secret not in page.content()
    row = tokens.get_by_role("row", name="user:ada@x")
    expect(row).to_contain_text("roles/ml.developer@p")

    # It is rotated, and then revoked.
    row.get_by_role("button", name="Rotate").click()
    page.get_by_role("dialog", name="Rotate the token of user:ada@x").get_by_role("button", name="Create the new token").click()
    shown.get_by_role("button", name="Done").click()
    expect(tokens.locator("tbody tr")).to_have_count(5)
    expect(tokens.get_by_role("row", name="user:admin@x").get_by_role("button", name="Revoke")).to_have_count(0)
    for left in (4, 3):
        tokens.get_by_role("row", name="user:ada@x").first.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(tokens.locator("tbody tr")).to_have_count(left)
    page.set_viewport_size({"width": 390, "height": 844})
    check(page, "access-narrow")
    page.goto("/console/server")
    check(page, "server-narrow")
    page.set_viewport_size({"width": 1280, "height": 844})

    # The log is filtered; what is wrong with a filter is shown in place.
    page.goto("/console/access")
    page.keyboard.press("/")
    page.keyboard.type("method = console.login AND status < 400")
    page.keyboard.press("Enter")
    page.wait_for_url("**filter=method*")
    expect(log.locator("tbody tr")).to_have_count(1)
    expect(log.locator("tbody tr")).to_contain_text("user:admin@x")
    page.get_by_label("Filter").fill("who = x")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("found the field who")
    page.get_by_label("Filter").fill("principal = none")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No record of the searched part matches")).to_be_visible()

    # What changes appears without a reload: this page looks again when a job ends.
    page.goto("/console/access?filter=method%3Aml.projects.jobs.cancel")
    expect(page.get_by_text("No record of the searched part matches")).to_be_visible()
    page.evaluate("window.sameDocument = true")
    page.evaluate("""fetch("/v1/projects/p/jobs/waits:cancel", {method: "POST", body: "{}", headers: {
      "content-type": "application/json",
      "x-tunesmith-csrf": document.querySelector("meta[name=csrf]").content}})""")
    expect(log.locator("tbody tr")).to_have_count(1)
    assert page.evaluate("window.sameDocument")

with opened(expected="status of 403", viewport={"width": 1280, "height": 844}) as page:
    sign_in(page, VIEWER, "/console")
    navigation = page.get_by_role("navigation", name="Main")
    expect(navigation.get_by_role("link", name="Jobs")).to_be_visible()
    for name in ("Access", "Server"):
        expect(navigation.get_by_role("link", name=name)).to_have_count(0)
        response = page.goto(f"/console/{name.lower()}")
        assert response.status == 403, (name, response.status)
        expect(page.get_by_text("a role with it in all projects is required")).to_be_visible()
        assert "user:admin@x" not in page.content()
        page.goto("/console")
