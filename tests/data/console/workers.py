"""Looks at what runs, waits and was lost, and sees it change while it is open."""

import sys

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

VIEWER, STRANGER, ADMIN = sys.argv[2:5]


def signed_in(page, token):
    page.goto("/console/workers")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/workers")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")


with opened(viewport={"width": 1280, "height": 844}) as page:
    signed_in(page, ADMIN)
    running = page.get_by_role("region", name="Runs now")
    expect(running.locator("tbody tr")).to_have_count(1)
    expect(running.get_by_role("row", name="tunes")).to_contain_text("trial 1")
    waits = page.get_by_role("region", name="Waits")
    expect(waits.get_by_role("row", name="tunes")).to_contain_text("the limit on running trials of the study of job p/tunes is reached")
    expect(waits.get_by_role("row", name="second")).to_contain_text("1 of 1 job slots are in use, and it is the next job")
    lost = page.get_by_role("region", name="Lost time").get_by_role("row", name="tunes")
    expect(lost.locator("td").first).to_have_text("1")
    assert float(lost.locator("td .number").first.get_attribute("title").removesuffix(" s")) > 0
    expect(page.get_by_role("img", name="Jobs at once")).to_be_visible()
    assert page.get_by_role("img", name="Jobs at once").get_attribute("aria-label").endswith("of 1 slot")
    photograph(page, "workers")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        is_within_width(page)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    photograph(page, "workers-narrow")
    page.set_viewport_size({"width": 1280, "height": 844})

    # The span of time is part of the address.
    page.get_by_role("link", name="1 hour").click()
    page.wait_for_url("**hours=1")
    expect(page.get_by_role("link", name="1 hour")).to_have_attribute("aria-current", "true")

    # The next job starts when the first one ends, without a reload.
    page.evaluate("window.sameDocument = true")
    page.evaluate("""fetch("/v1/projects/p/jobs/tunes:cancel", {method: "POST", body: "{}", headers: {
      "content-type": "application/json",
      "x-tunesmith-csrf": document.querySelector("meta[name=csrf]").content}})""")
    expect(running.get_by_role("row", name="second")).to_contain_text("runs its program")
    expect(page.get_by_text("Nothing waits for a job slot")).to_be_visible()
    assert page.evaluate("window.sameDocument")

with opened(viewport={"width": 1280, "height": 844}) as page:
    signed_in(page, VIEWER)
    expect(page.get_by_role("region", name="Runs now").get_by_role("row", name="second")).to_be_visible()
    expect(page.get_by_role("link", name="Submit a job")).to_have_count(0)

with opened(expected="status of 400", viewport={"width": 1280, "height": 844}) as page:
    signed_in(page, STRANGER)
    expect(page.get_by_text("Nothing runs.")).to_be_visible()
    assert "second" not in page.content() and "tunes" not in page.content().replace("Tunesmith", "").replace("tunesmith", "")
    response = page.goto("/console/workers?hours=5")
    assert response.status == 400
    expect(page.get_by_text("hours is 5; allowed: 1, 24, 168")).to_be_visible()
