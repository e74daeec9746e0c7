"""Opens the pages of studies of every kind, wide and narrow, and changes a study by its actions.

Usage: study_pages.py ADDRESS TOKEN_OF_AN_ADMINISTRATOR TOKEN_OF_A_VIEWER
"""

import sys

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph
from playwright.sync_api import TimeoutError

ADMIN, VIEWER = sys.argv[2:4]
STUDIES = "/console/projects/p/locations/l/studies"
PAYLOAD = "Größe 学習率 <img src=x onerror=injected()> \"'&</script>"

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
    for (const selector of [".ytick text", ".annotation-text[style*='font-size: 12px']"]) {
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

# All plots have been drawn for the width of the window, and no text of theirs is where it should not be.
TIDY = f"""() => ({DRAWN})()
  && [...document.querySelectorAll("figure[data-plot] .canvas")].every((canvas) => {{
    const drawing = canvas.querySelector(".main-svg");
    return !drawing || Math.abs(drawing.getBoundingClientRect().width - canvas.clientWidth) <= 1;
  }})
  && ({CLUTTER})().length === 0"""

# The plots with marks, besides those of every study.
ALWAYS = {"history", "slice", "parallelCoordinates", "contour", "rank", "distribution", "importance"}
KINDS = {
    "wide": (64, ALWAYS),
    "conditional": (16, ALWAYS),
    "three": (16, ALWAYS | {"paretoFront"}),
    "constrained": (12, ALWAYS),
    "failures": (20, ALWAYS - {"contour", "rank"}),
    "names": (9, ALWAYS),
    "one": (1, {"history", "slice", "distribution"}),
    "none": (0, set()),
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
            try:
                page.wait_for_function(TIDY, timeout=30_000)
            except TimeoutError as error:
                raise AssertionError((name, width, page.evaluate(CLUTTER))) from error
        check(page, f"study-{name}-{width}", with_axe)
    page.set_viewport_size({"width": 1280, "height": heights[0]})


def look(page, study, trials, plots):
    is_special = study in ("wide", "names", "none")
    for tab in ("", "/trials", "/configuration") + (("/trials/1",) if trials else ()):
        response = page.goto(f"{STUDIES}/{study}{tab}")
        assert response.status == 200, (study, tab, response.status)
        expect(page.get_by_role("heading", level=1)).to_have_text(study)
        each_width(page, f"{study}{tab.replace('/', '-')}", (900, 900), study == "names" and tab != "/configuration")
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
    expect(page.get_by_role("region", name="Studies").locator("tbody tr")).to_have_count(8)
    for study, (trials, plots) in KINDS.items():
        look(page, study, trials, plots)

    # What is special about them.
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{STUDIES}/three")
    expect(page.get_by_text("optimal trials").first).to_be_visible()
    page.goto(f"{STUDIES}/constrained/trials")
    expect(page.get_by_role("columnheader", name="latency")).to_contain_text("at most 0.5")
    expect(page.locator("tbody .bad", has_text="violates latency")).to_have_count(6)
    page.goto(f"{STUDIES}/failures")
    expect(page.get_by_text("have no usable result")).to_be_visible()
    assert PAYLOAD in page.locator("table.plain").inner_text()
    page.goto(f"{STUDIES}/names/trials")
    assert PAYLOAD in page.locator("thead").inner_text()
    page.goto(f"{STUDIES}/none")
    expect(page.get_by_text("No trial has a result yet.", exact=False).last).to_be_visible()

    # The list has studies and jobs, by one filter that is part of the address.
    page.goto("/console/jobs")
    expect(page.locator("tbody tr")).to_have_count(8)
    page.get_by_label("Filter").fill("studyId:* AND trials > 15 AND metric:loss")
    page.get_by_label("Filter").press("Enter")
    page.wait_for_url("**filter=studyId*")
    expect(page.locator("tbody th a")).to_have_text(["failures", "conditional"])
    page.get_by_label("Show").select_option(label="Jobs")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("found the field studyId")
    page.goto("/console/jobs?kind=jobs")
    expect(page.get_by_text("Nothing fits the filter")).to_be_visible()

    # Studies are compared as jobs are.
    page.goto("/console/jobs?kind=studies")
    page.get_by_label("Compare conditional").check()
    page.get_by_label("Compare failures").check()
    page.get_by_role("button", name="Compare 2 jobs").click()
    page.wait_for_url("**/console/compare?**")
    expect(page.locator("#compared tbody tr")).to_have_count(2)
    expect(page.get_by_text("2 studies that minimize loss")).to_be_visible()
    expect(page.get_by_text("The search spaces differ.")).to_be_visible()

    # Actions: a trial of one's own, with and without a result, stopped, ended and deleted; more trials; the end of a study.
    page.goto(f"{STUDIES}/conditional/trials")
    page.get_by_role("button", name="Add a trial").click()
    dialog = page.locator("dialog[open]")
    dialog.locator('[data-parameter="optimizer"]').select_option(label="sgd")
    dialog.locator('[data-parameter="depth"]').fill("40")
    dialog.locator('[data-parameter="momentum"]').fill("0.5")
    expect(dialog.locator("label", has_text="decay#2")).to_contain_text("0.2 to 1; only with optimizer = sgd")
    dialog.locator('[data-parameter="decay"]').nth(1).fill("0.25")
    dialog.locator('[data-metric="loss"]').fill("0.01")
    dialog.get_by_role("button", name="Add trial").click()
    expect(dialog.get_by_role("alert")).to_contain_text("depth")
    check(page, "study-new-trial")
    dialog.locator('[data-parameter="depth"]').fill("4")
    dialog.get_by_role("button", name="Add trial").click()
    expect(page.locator("tbody tr")).to_have_count(17)
    page.get_by_role("link", name="17", exact=True).click()
    expect(page.locator("[data-live=state]")).to_have_text("Succeeded")
    expect(page.locator("dl.facts").first).to_contain_text("momentum")

    # A client owns the suggested trial of `names`.
    page.goto(f"{STUDIES}/names/trials/9")
    badge = page.locator("[data-live=state]")
    expect(badge).to_have_text("Running")
    expect(page.locator("main")).to_contain_text(PAYLOAD)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.locator("dialog").get_by_role("button", name="Stop", exact=True).click()
    expect(badge).to_have_text("Stopping")
    page.get_by_role("button", name="End as infeasible").click()
    page.locator("dialog").get_by_role("button", name="End as infeasible").click()
    expect(badge).to_have_text("Infeasible")
    expect(page.get_by_text("ended in the console")).to_be_visible()
    page.get_by_role("button", name="Delete trial").click()
    page.locator("dialog").get_by_role("button", name="Delete trial").click()
    page.wait_for_url("**/names/trials")
    expect(page.locator("tbody tr")).to_have_count(8)

    # The page follows what clients do.
    page.goto(f"{STUDIES}/one")
    page.evaluate("window.sameDocument = true")
    page.evaluate("""fetch("/v1/projects/p/locations/l/studies/one/trials", {method: "POST", headers: {
      "content-type": "application/json", "x-tunesmith-csrf": document.querySelector("meta[name=csrf]").content},
      body: JSON.stringify({parameters: [{parameter: "x", floatValue: 0.1}], finalMeasurement: {metrics: [{metric: "loss", value: 0.125}]}})})""")
    expect(page.locator("[data-live=summary] .figures").get_by_text("0.125")).to_be_visible()
    assert page.evaluate("window.sameDocument")
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Trials in all").fill("30")
    page.get_by_role("button", name="Change trials").click()
    expect(page.get_by_text("of 30 have ended")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/console/jobs?kind=studies")
    expect(page.locator("tbody tr")).to_have_count(7)

with opened(viewport={"width": 1280, "height": 900}) as page:
    sign_in(page, VIEWER)
    for tab in ("", "/trials", "/trials/1"):
        page.goto(f"{STUDIES}/three{tab}")
        expect(page.locator("[data-method]")).to_have_count(0)
