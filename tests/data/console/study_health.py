"""Reads the health of a good study, with the prediction of the model."""

import re

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

with opened(viewport={"width": 1280, "height": 844}, permissions=["clipboard-read", "clipboard-write"]) as page:
    page.goto("/console/projects/local/jobs/j")
    # What needs no attention is folded.
    page.get_by_text("checks passed").click()
    expect(page.get_by_text("16 of 16 ended trials have reported a metric, 16 have a result.")).to_be_visible()
    expect(page.get_by_text("The results differ.")).to_be_visible()
    expect(page.get_by_text("of 16 have ended")).to_be_visible()
    best, noise = page.locator("#model li").nth(0), page.locator("#model li").nth(1)
    expect(best).to_contain_text("95% band")
    expect(best).to_contain_text("fitted to 16 trials")
    low, high = (float(best.locator(".number").nth(index).get_attribute("title")) for index in (1, 2))
    assert low < high, (low, high)
    # The result is the parameter x itself: there is no noise to speak of.
    expect(noise.locator(".badge")).to_have_class("badge is-good")
    # The picture: results and importance, without plotly.js, and the five best trials.
    picture = page.locator("#picture[data-drawn]")
    expect(picture.get_by_role("img")).to_have_attribute("aria-label", re.compile("loss of the trials in their order, best .* in trial "))
    assert picture.locator("svg.sketch path").count() >= 3
    expect(picture.locator(".bars .name")).to_have_text(["x", "kind"])
    leaders = page.locator("#leaders tbody tr")
    expect(leaders).to_have_count(5)
    losses = [float(cell.get_attribute("title")) for cell in leaders.locator("td:nth-child(2)").all()]
    assert losses == sorted(losses), losses
    leaders.first.get_by_role("button", name="as flags").click()
    expect(leaders.first.locator("button").first).to_have_text("Copied")
    flags = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"--x=0\.\d+ --kind=[ab]", flags), flags
    assert not page.evaluate("'Plotly' in window")
    photograph(page, "study-health")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        is_within_width(page)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
