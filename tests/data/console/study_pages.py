"""Opens the pages of studies of several kinds, wide and narrow.

Usage: study_pages.py ADDRESS TOKEN_OF_AN_ADMINISTRATOR
"""

import contextlib
import sys

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph
from playwright.sync_api import TimeoutError

ADMIN = sys.argv[2]
STUDIES = "/console/projects/p/locations/l/studies"

# All plots near the window have been drawn, or state why they are not.
DRAWN = """() => {
  const explore = document.getElementById("explore");
  const near = [...document.querySelectorAll("figure[data-plot]")]
    .filter((figure) => figure.getBoundingClientRect().top < innerHeight);
  return explore.dataset.shown !== undefined && near.every((figure) => figure.dataset.drawn === explore.dataset.shown);
}"""

# Text of plots that overlaps other text of the same axis, or that leaves its plot.
CLUTTER = """() => {
  const wrong = [];
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    const edge = figure.querySelector(".main-svg")?.getBoundingClientRect();
    if (!edge) continue;
    const texts = (selector) => [...figure.querySelectorAll(selector)].map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const selector of [".ytick text"]) {
      const shown = texts(selector).filter(([, box]) => box.width > 0);
      shown.forEach(([name, box], index) => {
        if (box.left < edge.left - 1 || box.right > edge.right + 1) wrong.push(`${figure.dataset.plot}: ${name} leaves the plot`);
        const over = shown.slice(index + 1).find(([, other]) => box.left < other.right - 1 && other.left < box.right - 1
          && box.top < other.bottom - 2 && other.top < box.bottom - 2);
        if (over) wrong.push(`${figure.dataset.plot}: ${name} is over ${over[0]}`);
      });
    }
    for (const [name, box] of texts(".xtitle, .ytitle")) {
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 || box.bottom > edge.bottom + 1)
        wrong.push(`${figure.dataset.plot}: the title ${name} leaves the plot`);
    }
  }
  return wrong;
}"""

# The plots with marks, besides those of every study.
ALWAYS = {"history", "slice", "parallelCoordinates", "contour", "rank", "distribution", "importance"}
KINDS = {
    "wide": (64, ALWAYS),
    "conditional": (16, ALWAYS),
    "three": (16, ALWAYS | {"paretoFront"}),
    "failures": (20, ALWAYS - {"contour", "rank"}),
}


def sign_in(page, token):
    page.goto("/console/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")


def check(page, name, with_axe=True):
    is_within_width(page)
    photograph(page, name)
    if with_axe:
        found = Axe().run(page)
        assert found.violations_count == 0, f"{page.url}\n{found.generate_report()}"


def marked(page):
    figures = page.locator("figure[data-plot]")
    names = figures.evaluate_all("figures => figures.filter(figure => figure.querySelector('.point, .trace, .js-line, .hm image')).map(figure => figure.dataset.plot)")
    return set(names)


def each_width(page, name, heights, with_axe):
    """Checks a page in a wide window, and then in a narrow one."""
    for width, height in zip((1280, 390), heights):
        page.set_viewport_size({"width": width, "height": height})
        if heights != (900, 900):
            # The plots are drawn again for another width.
            with contextlib.suppress(TimeoutError):
                page.wait_for_function(f"() => ({CLUTTER})().length === 0", timeout=30_000)
            clutter = page.evaluate(CLUTTER)
            assert not clutter, (name, width, clutter)
        check(page, f"study-{name}-{width}", with_axe)
    page.set_viewport_size({"width": 1280, "height": heights[0]})


def look(page, study, trials, plots):
    is_special = study == "wide"
    for tab in ("", "/trials", "/configuration") + (("/trials/1",) if trials else ()):
        response = page.goto(f"{STUDIES}/{study}{tab}")
        assert response.status == 200, (study, tab, response.status)
        expect(page.get_by_role("heading", level=1)).to_have_text(study)
        each_width(page, f"{study}{tab.replace('/', '-')}", (900, 900), False)
    # A tall window draws all plots at once.
    heights = (3400, 5600)
    page.set_viewport_size({"width": 1280, "height": heights[0]})
    page.goto(f"{STUDIES}/{study}/explore")
    page.wait_for_function(DRAWN)
    expect(page.locator("#matched")).to_have_text(f"{trials} of {trials} trials")
    expect(page.locator("#filter-problem")).to_have_text("")
    missing = plots - marked(page)
    assert not missing, (study, missing, page.locator("figure .note").all_inner_texts())
    each_width(page, f"{study}-explore", heights, is_special)
    if is_special:
        page.goto(f"{STUDIES}/{study}/trust")
        page.wait_for_function(DRAWN)
        each_width(page, f"{study}-trust", (1800, 1800), True)
    assert page.locator("img").count() == 0


with opened(expected="status of 4", viewport={"width": 1280, "height": 900}, color_scheme="light") as page:
    sign_in(page, ADMIN)
    expect(page.get_by_role("region", name="Studies").locator("tbody tr")).to_have_count(7)
    for study, (trials, plots) in KINDS.items():
        look(page, study, trials, plots)
