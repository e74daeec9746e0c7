"""Steps through a list of trials beside the open one, and writes notes on trials."""

import json
import re

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

STUDY = "/console/projects/p/locations/l/studies/table"
PAYLOAD = "<img src=x onerror=injected()>\nsecond line"


def check(page, name):
    is_within_width(page)
    photograph(page, name)
    found = Axe().run(page)
    assert found.violations_count == 0, f"{page.url}\n{json.dumps(found.response['violations'], indent=1)[:3000]}"


def listed(page):
    return page.locator(".beside tbody th").all_inner_texts()


def opened_trial(page):
    return page.locator(".open-trial h2").first.inner_text()


def list_keeps_filter_and_order(page):
    page.goto(f"{STUDY}/trials?filter=state+%3D+SUCCEEDED&orderBy=metric.loss+desc")
    order = page.locator("main tbody th").all_inner_texts()
    assert len(order) == 12, order
    page.locator("main tbody th a").nth(3).click()
    page.wait_for_url("**/trials/*")
    assert listed(page) == order, listed(page)
    expect(page.locator(".beside [aria-current]")).to_have_text(order[3])
    expect(page.locator(".beside summary")).to_have_text(re.compile("4 of 12"))
    expect(page.locator(".beside thead")).to_contain_text("loss")
    # Keys and links step through the list.
    page.keyboard.press("]")
    page.wait_for_url(f"**/trials/{order[4]}?*")
    assert opened_trial(page) == f"Trial {order[4]}" and listed(page) == order
    page.get_by_role("link", name="Previous").click()
    page.wait_for_url(f"**/trials/{order[3]}?*")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/trials/{order[4]}?*")
    check(page, "beside-1280")
    page.get_by_role("link", name="All columns").click()
    page.wait_for_url("**/trials?*")
    assert page.locator("main tbody th").all_inner_texts() == order

    # A trial that the filter does not select is shown without a list.
    page.goto(f"{STUDY}/trials/13?filter=state+%3D+SUCCEEDED")
    expect(page.locator(".beside")).to_contain_text("Trial 13 does not match the filter.")
    expect(page.get_by_role("link", name="Next")).to_have_count(0)
    page.goto(f"{STUDY}/trials/13?filter=nonsense%3A1")
    expect(page.locator(".beside")).to_contain_text("nonsense")

    # Without a filter, the list is by number.
    page.goto(f"{STUDY}/trials/2")
    assert listed(page)[:3] == ["1", "2", "3"], listed(page)
    page.keyboard.press("[")
    page.wait_for_url(f"**{STUDY}/trials/1")

    # A narrow window shows the list on demand; a wide one remembers that it was closed.
    page.locator(".beside summary").click()
    page.reload()
    expect(page.locator(".beside table")).to_be_hidden()
    page.locator(".beside summary").click()
    page.reload()
    expect(page.locator(".beside table")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".beside table")).to_be_hidden()
    page.locator(".beside summary").click()
    expect(page.locator(".beside table")).to_be_visible()
    check(page, "beside-390")
    page.set_viewport_size({"width": 1280, "height": 900})


def notes_are_written_and_found(page):
    page.goto(f"{STUDY}/trials/5")
    page.get_by_role("button", name="Add a note").click()
    dialog = page.get_by_role("dialog", name="Note on trial 5")
    dialog.get_by_label("Text").fill(PAYLOAD)
    check(page, "note-dialog")
    dialog.get_by_role("button", name="Save note").click()
    note = page.get_by_role("region", name="Note")
    expect(note).to_contain_text("<img src=x onerror=injected()>")
    expect(note).to_contain_text("second line")
    check(page, "note")

    # Another person changes it while the form is open: the change is refused, and the text stays.
    page.get_by_role("button", name="Edit note").click()
    field = dialog.get_by_label("Text")
    expect(field).to_have_value(PAYLOAD)
    field.fill("mine")
    answer = page.request.post(page.url.replace("/console/", "/v1/") + ":setNote", data={"text": "theirs"})
    assert answer.status == 200, answer.text()
    dialog.get_by_role("button", name="Save note").click()
    expect(dialog.get_by_role("alert")).to_have_text("the note of trial 5 has been changed since it was read: read it again")
    expect(field).to_have_value("mine")
    dialog.get_by_role("button", name="Close").click()
    expect(note).to_contain_text("theirs")

    page.goto(f"{STUDY}/trials")
    page.get_by_role("button", name="With a note").click()
    page.wait_for_url("**filter=note*")
    expect(page.locator("main tbody tr")).to_have_count(1)
    expect(page.locator("main tbody tr")).to_contain_text("theirs")
    check(page, "trials-with-notes")
    page.locator("main tbody th a").click()
    page.get_by_role("button", name="Edit note").click()
    dialog.get_by_label("Text").fill("")
    dialog.get_by_role("button", name="Save note").click()
    expect(page.get_by_role("button", name="Add a note")).to_be_visible()
    expect(note).to_have_count(0)


with opened(expected="status of 409", viewport={"width": 1280, "height": 900}, color_scheme="dark") as page:
    list_keeps_filter_and_order(page)
    notes_are_written_and_found(page)
