"""Reads the health of a good study, with the prediction of the model."""

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

with opened(viewport={"width": 1280, "height": 844}) as page:
    page.goto("/console/projects/local/jobs/j")
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
    photograph(page, "study-health")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        is_within_width(page)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
