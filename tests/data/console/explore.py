"""Drives the page Explore in chromium: plots, brushing, links, the back button, dark mode, saved plots.

Usage: explore.py ADDRESS_OF_THE_PAGE FOLDER_FOR_SCREENSHOTS
"""

import csv
import io
import re
import sys
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import sync_playwright

ADDRESS, FOLDER = sys.argv[1], Path(sys.argv[2])
PAYLOAD = "<img src=x onerror=alert(1)>"

# All plots near the window show the present selection.
DRAWN = """() => {
  const shown = document.getElementById("explore").dataset.shown;
  const near = [...document.querySelectorAll("figure[data-plot]")]
    .filter((figure) => figure.getBoundingClientRect().top < innerHeight);
  return shown !== undefined && near.every((figure) => figure.dataset.drawn === shown);
}"""


def filter_of(page):
    return parse_qs(urlsplit(page.url).query).get("filter", [""])[0]


def matched(page):
    return int(page.inner_text("#matched").split(" ")[0])


def drag(page, figure, start, end):
    """Drags across the plot area of a figure, between two points given as shares of its width and height."""
    area = page.locator(f"figure[data-plot={figure}] .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    at = lambda share: (box["x"] + share[0] * box["width"], box["y"] + share[1] * box["height"])
    page.mouse.move(*at(start))
    page.mouse.down()
    page.mouse.move(*at(((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)))
    page.mouse.move(*at(end))
    page.mouse.up()


def main():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 2600})
        # A loaded machine takes a while to compile plotly.js.
        page.set_default_timeout(300_000)
        problems, refused = [], []

        def note(message):
            # The browser reports a refused request whenever it comes to it, also after the page was left.
            if "DONE" in message.location["url"]:
                refused.append(message.text)
            elif message.type in ("error", "warning"):
                problems.append(message.text)

        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", note)
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        # Plots are sketched, and the trials shown, before plotly.js is there.
        held = []
        page.route("**/plotly.min.js", lambda route: held.append(route))
        page.goto(ADDRESS)
        page.wait_for_selector("#matches tbody tr")
        page.wait_for_selector("figure[data-plot=history] .sketch")
        points = page.get_attribute("figure[data-plot=history] .sketch path:nth-of-type(2)", "d")
        assert points.count("M") == 40 and "NaN" not in points, points
        assert page.locator("figure[data-plot=history] .sketch text").first.inner_html() == "1"
        page.screenshot(path=FOLDER / "sketch.png")
        for route in held:
            route.continue_()
        page.unroute("**/plotly.min.js")
        page.wait_for_function(DRAWN)
        assert held and page.locator(".sketch").count() == 0
        assert page.inner_text("#matched") == "40 of 40 trials", page.inner_text("#matched")
        plots = page.eval_on_selector_all("figure[data-plot]", "figures => figures.map(figure => figure.dataset.plot)")
        assert set(plots) == {
            "history", "slice", "parallelCoordinates", "contour", "rank", "distribution", "importance", "learningCurves", "timeline",
        }, plots
        for plot in plots:
            assert page.locator(f"figure[data-plot={plot}] .main-svg").count() > 0, plot
        assert page.locator("img").count() == 0
        assert PAYLOAD in page.inner_text("#matches thead")
        page.screenshot(path=FOLDER / "explore.png")

        # Brushing one plot filters all plots and the table, and changes the address.
        drag(page, "history", (0.02, 0.02), (0.5, 0.98))
        page.wait_for_function("() => location.search.includes('filter')")
        page.wait_for_function(DRAWN)
        brushed = filter_of(page)
        bounds = re.match(r"id >= ([01]) AND id <= (\d+) AND metric.loss >= \S+ AND metric.loss <= \S+$", brushed)
        assert bounds and 15 <= int(bounds[2]) <= 25, brushed
        last = int(bounds[2])
        assert page.input_value("input[name=filter]") == brushed
        first = matched(page)
        assert first == last, first
        ids = [int(text) for text in page.locator("#matches tbody th").all_inner_texts()]
        assert len(ids) == first and all(number <= last for number in ids), ids
        assert page.inner_text("figure[data-plot=distribution] .note") == f"{first} trials with a result"
        losses = [float(text) for text in page.locator("#matches tbody tr td:nth-child(3)").all_inner_texts()]
        assert losses == sorted(losses), losses

        # A second brush of the same plot replaces the first one.
        drag(page, "slice", (0.02, 0.02), (0.6, 0.98))
        page.wait_for_function("() => location.search.includes('parameters')")
        page.wait_for_function(DRAWN)
        second = filter_of(page)
        assert second.startswith(bounds[0].split(" AND metric")[0]) and second.count("metric.loss >=") == 1, second
        assert second.count("parameters.x >= ") == 1 and matched(page) <= first, second

        page.go_back()
        page.wait_for_function("count => document.getElementById('matched').textContent.startsWith(`${count} of`)", arg=first)
        page.wait_for_function(DRAWN)
        assert filter_of(page) == brushed
        page.click("#clear")
        page.wait_for_function("() => document.getElementById('matched').textContent === '40 of 40 trials'")

        # A link shows the same again, and a mistake is explained in place.
        wanted = f'parameters."{PAYLOAD}" = "a b" AND metric.loss < 0.3'
        page.goto(f"{ADDRESS}?filter={quote(wanted)}")
        page.wait_for_function(DRAWN)
        assert page.input_value("input[name=filter]") == wanted
        texts = page.locator("#matches tbody tr").all_inner_texts()
        assert len(texts) == matched(page) > 0 and all("a b" in text for text in texts), texts
        assert problems == [], problems
        page.fill("input[name=filter]", "state = DONE")
        page.press("input[name=filter]", "Enter")
        page.wait_for_function("() => document.getElementById('filter-problem').textContent !== ''")
        assert "column 9: found DONE" in page.inner_text("#filter-problem")
        assert page.get_attribute("input[name=filter]", "aria-invalid") == "true"

        page.goto(ADDRESS)
        page.wait_for_function(DRAWN)
        with page.expect_download() as download:
            page.click("figure[data-plot=history] [data-save=csv]")
        rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
        assert rows[0] == ["trial", "number", "loss"] and len(rows) == 41, rows[:3]
        for form, magic in [("png", b"\x89PNG"), ("svg", b"<svg")]:
            with page.expect_download() as download:
                page.click(f"figure[data-plot=slice] [data-save={form}]")
            content = Path(download.value.path()).read_bytes()
            assert content.startswith(magic), content[:40]

        page.emulate_media(color_scheme="dark")
        page.wait_for_function(DRAWN)
        page.screenshot(path=FOLDER / "explore-dark.png")
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
        page.screenshot(path=FOLDER / "explore-narrow.png")
        assert problems == [] and all("400" in text for text in refused), (problems, refused)
        browser.close()


main()
