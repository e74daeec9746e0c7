"""Opens a report from its file, without a network: all plots, the table, both themes, narrow windows, saved plots.

Usage: report.py ADDRESS_OF_THE_FILE
"""

import csv
import io
import re
import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

ADDRESS = sys.argv[1]
PAYLOAD = """</script><!--<script>injected()</script><img src=x onerror=injected()>"'"""
PLOTS = {"history", "slice", "parallelCoordinates", "contour", "rank", "distribution", "importance", "learningCurves",
         "timeline", "trust", "coverage"}
DRAWN = "() => [...document.querySelectorAll('figure[data-plot]')].every((figure) => figure.dataset.drawn !== undefined)"


def brief(name, most=36):
    """The name as an axis shows it: a long one without its middle."""
    end = (most - 1) // 2
    return name if len(name) <= most else f"{name[:most - 1 - end]}…{name[-end:]}"


for theme in ("light", "dark"):
    for width in (1280, 390):
        with opened(viewport={"width": width, "height": 900}, color_scheme=theme, offline=True) as page:
            requests = []
            page.on("request", lambda request: requests.append(request.url))
            page.goto(ADDRESS)
            page.wait_for_function(DRAWN)
            assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [ADDRESS], requests
            expect(page.locator("h1")).to_have_text("first")
            found = page.eval_on_selector_all("figure[data-plot]", "figures => figures.map(figure => figure.dataset.plot)")
            assert set(found) == PLOTS and len(found) == len(PLOTS), found
            for plot in PLOTS:
                marks = page.locator(f"figure[data-plot={plot}] :is(.point, .trace, .js-line)")
                assert marks.count() > 0, (plot, page.inner_text(f"figure[data-plot={plot}] .note"))
            assert page.locator("img").count() == 0
            is_within_width(page)
            photograph(page, f"report-{theme}-{width}")
            if width == 1280 or theme == "light":
                checked = Axe().run(page)
                assert checked.violations_count == 0, checked.generate_report()

with opened(viewport={"width": 1280, "height": 900}, color_scheme="light", offline=True) as page:
    page.goto(ADDRESS)
    page.wait_for_function(DRAWN)
    # The summary: the goal, the best result, the numbers of trials, and what is wrong.
    summary = page.inner_text("main")
    assert "minimize loss" in summary and "of 30" in summary and "RANDOM_SEARCH" in summary, summary[:1000]
    failed = int(re.search(r"(\d+) of 30 trials \(\d+ %\) have no usable result", summary)[1])
    assert 1 <= failed <= 12, failed
    assert PAYLOAD in page.inner_text("#trials thead")
    rows = page.locator("#trials tbody tr")
    assert rows.count() == 30
    losses = [float(text) for text in page.locator("#trials tbody tr td:nth-child(3)").all_inner_texts()[: 30 - failed]]
    assert losses == sorted(losses) and losses[0] < losses[-1], losses
    best = page.locator("#best tbody tr").first
    assert best.locator("td").nth(1).get_attribute("title") is not None or best.inner_text(), best.inner_text()
    assert abs(float(best.locator("td").nth(1).inner_text()) - losses[0]) < 1e-6, best.inner_text()

    # The choices select among the views that the page contains.
    slices = page.locator("figure[data-plot=slice]")
    before = slices.get_attribute("data-drawn")
    slices.locator("select").select_option(label=PAYLOAD)
    expect(slices).not_to_have_attribute("data-drawn", before)
    expect(slices.locator(".xtitle")).to_have_text(brief(PAYLOAD))
    contour = page.locator("figure[data-plot=contour]")
    names = contour.locator("select[name=x] option").all_inner_texts()
    assert sorted(names) == sorted(["x", "depth", PAYLOAD]), names
    contour.locator("select[name=y]").select_option(index=2)
    expect(contour.locator(".ytitle")).to_have_text(brief(names[2]))
    contour.locator("select[name=y]").select_option(index=0)
    expect(contour.locator(".note")).to_have_text("Choose two different axes.")
    contour.locator("select[name=y]").select_option(index=1)
    expect(contour.locator(".ytitle")).to_have_text(brief(names[1]))

    # A surface over two numbers, or the cells that it is fitted to.
    contour.locator("select[name=x]").select_option(label="x")
    contour.locator("select[name=y]").select_option(label="depth")
    expect(contour.locator(".note")).to_contain_text("by a fitted surface")
    contour.get_by_role("button", name="Show the means of cells").click()
    expect(contour.locator(".note")).to_contain_text("in cells")

    # The theme follows the switch, and the plots follow it.
    colour = "getComputedStyle(document.querySelector('figure[data-plot=history] .xtitle')).fill"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.wait_for_function(f"light => {colour} !== light", arg=light)

    with page.expect_download() as download:
        page.click("figure[data-plot=history] [data-save=csv]")
    saved = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
    assert saved[0] == ["trial", "number", "loss"] and len(saved) == 31 - failed, saved[:3]
    assert download.value.suggested_filename == "first-history.csv"
    for form, magic in [("png", b"\x89PNG"), ("svg", b"<svg")]:
        with page.expect_download() as download:
            page.click(f"figure[data-plot=slice] [data-save={form}]")
        assert Path(download.value.path()).read_bytes().startswith(magic), form
    photograph(page, "report-chosen")
