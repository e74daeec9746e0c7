"""Opens the dialogs, the pages of errors and the printed form of pages, in light and dark, wide and narrow.

Usage: dialogs.py ADDRESS TOKEN_OF_AN_ADMINISTRATOR TOKEN_OF_A_VIEWER
"""

import sys

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

ADMIN, VIEWER = sys.argv[2:4]
JOB = "/console/projects/p/jobs/first"
STUDY = "/console/projects/p/locations/l/studies/s"

# Page, button and name of the dialog, which the button opens; the first without a name asks a question.
DIALOGS = {
    "delete": (JOB, "Delete", None),
    "change": (JOB, "Change", "Change first"),
    "model": (JOB, "Create a model", "Create a model from first"),
    "trial": (f"{STUDY}/trials", "Add a trial", "Add a trial"),
    "note": (f"{JOB}/trials/1", "Add a note", "Note on trial 1"),
    "delete-trial": (f"{STUDY}/trials/1", "Delete trial", None),
    "token": ("/console/access", "New token", "New token"),
}
# Address, status, and a part of what the page states.
ERRORS = {
    "unknown-page": ("/console/nothing", 404, "There is no page /console/nothing."),
    "unknown-job": ("/console/projects/p/jobs/none", 404, "Job p/none"),
    "unknown-trial": (f"{JOB}/trials/99", 404, "Trial 99"),
    "bad-address": (f"{JOB}/trials?after=x", 400, "after=x"),
}
REFUSED = {"no-permission": ("/console/new", 403, "role"), "no-administrator": ("/console/access", 403, "role")}


def sign_in(page, token):
    page.goto("/console/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")


def check(page, name):
    is_within_width(page)
    photograph(page, name)
    found = Axe().run(page)
    assert found.violations_count == 0, f"{name} {page.url}\n{found.generate_report()}"


def shows_errors(page, errors, name):
    for error, (path, status, text) in errors.items():
        response = page.goto(path)
        assert response.status == status, (path, response.status)
        expect(page.locator("main")).to_contain_text(text)
        expect(page.get_by_role("link", name="Overview").last).to_be_visible()
        check(page, f"{error}-{name}")


def shows_dialogs(page, name):
    for dialog, (path, button, label) in DIALOGS.items():
        page.goto(path)
        page.get_by_role("button", name=button, exact=True).first.click()
        shown = page.get_by_role("dialog", name=label) if label else page.locator("dialog[open]")
        expect(shown).to_be_visible()
        box = shown.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"], (dialog, box)
        check(page, f"dialog-{dialog}-{name}")
        shown.get_by_role("button", name="Close" if label else "Back").click()
        expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    check(page, f"dialog-keys-{name}")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+K")
    page.keyboard.type("firs")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_contain_text("first")
    check(page, f"dialog-commands-{name}")


def prints(page, name):
    for path in (JOB, f"{JOB}/trials", f"{JOB}/trials/1", "/console/jobs"):
        page.goto(path)
        page.emulate_media(media="print")
        photograph(page, f"print-{path.rsplit('/', 1)[-1]}-{name}")
        for control in ("header.top", ".tabs", ".filter", ".beside", "button"):
            for element in page.locator(control).all():
                expect(element).to_be_hidden()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        # Paper is white.
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
        page.emulate_media(media="screen")


for theme in ("light", "dark"):
    for width in (1440, 390):
        with opened("Failed to load resource", viewport={"width": width, "height": 844}, color_scheme=theme) as page:
            name = f"{theme}-{width}"
            sign_in(page, ADMIN)
            page.goto(JOB)
            expect(page.locator("[data-live=badge]")).to_have_text("Succeeded")
            shows_dialogs(page, name)
            shows_errors(page, ERRORS, name)
            if width == 1440:
                prints(page, name)
            page.context.clear_cookies()
            sign_in(page, VIEWER)
            shows_errors(page, REFUSED, name)
