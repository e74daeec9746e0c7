"""Uses the table of trials, the keys, the list of commands, the cards of plots and the page of a trial."""

import json
import re
from urllib.parse import quote

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

STUDY = "/console/projects/p/locations/l/studies/table"
TRIAL = "/console/projects/p/jobs/first/trials/1"

# Plots in the window have been drawn.
DRAWN = """() => {
  const shown = document.getElementById("explore").dataset.shown;
  const near = [...document.querySelectorAll("figure[data-plot]")].filter((figure) => figure.getBoundingClientRect().top < innerHeight);
  return shown !== undefined && near.every((figure) => figure.dataset.drawn === shown);
}"""


def heads(page):
    return [text.split("\n")[0] for text in page.locator("main thead th").all_inner_texts()]


def column(page, name):
    at = heads(page).index(name)
    return [row.locator("th, td").nth(at).inner_text() for row in page.locator("main tbody tr").all()]


def sort_by(page, name):
    # The name of the link of a sorted column ends with an arrow.
    page.locator("main thead").get_by_role("link", name=re.compile(f"^{name}")).click()
    page.wait_for_load_state()


def sorts_and_chooses_columns(page):
    page.goto(f"{STUDY}/trials")
    assert heads(page) == ["Trial", "State", "loss", "Run time", "rate", "kind"], heads(page)
    head = page.get_by_role("columnheader", name="loss")
    sort_by(page, "loss")
    expect(head).to_have_attribute("aria-sort", "ascending")
    losses = [float(text) for text in column(page, "loss") if text != "–"]
    assert losses == sorted(losses) and len(losses) == 12, losses
    sort_by(page, "loss")
    expect(head).to_have_attribute("aria-sort", "descending")
    assert [float(text) for text in column(page, "loss") if text != "–"] == losses[::-1]
    sort_by(page, "kind")
    assert column(page, "kind") == sorted(column(page, "kind"))

    # The chosen columns are part of the address, and stay while the table is sorted and filtered.
    page.get_by_text("Columns", exact=True).click()
    for name in ("Run time", "kind"):
        page.locator(".chooser").get_by_label(name).uncheck()
    check(page, "trials-columns")
    page.get_by_role("button", name="Show these").click()
    page.wait_for_url("**column=*")
    assert heads(page) == ["Trial", "State", "loss", "rate"], heads(page)
    sort_by(page, "rate")
    page.get_by_role("button", name="Failed").click()
    page.wait_for_url("**filter=*")
    expect(page.locator("main tbody tr")).to_have_count(1)
    assert heads(page) == ["Trial", "State", "loss", "rate"] and column(page, "Trial") == ["13"], page.url

    # A column that the study does not have is refused with those that it has.
    response = page.goto(f"{STUDY}/trials?column=metric.los")
    assert response.status == 400, response.status
    known = "metric.loss, duration, parameters.rate, parameters.kind"
    expect(page.locator("main")).to_contain_text(f"column=metric.los: not a column of this study; allowed: {known}")


def keys_move_through_rows(page):
    page.goto(f"{STUDY}/trials")
    focused = "document.activeElement.closest('tr')?.querySelector('th').innerText"
    for key, trial in (("j", "1"), ("j", "2"), ("j", "3"), ("k", "2")):
        page.keyboard.press(key)
        assert page.evaluate(focused) == trial, (key, trial, page.evaluate(focused))
    page.keyboard.press("Enter")
    page.wait_for_url("**/trials/2")
    # `?` shows the keys; while they are shown, others have no effect.
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Next and previous row of the table")
    check(page, "keys")
    page.keyboard.press("]")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("]")
    page.wait_for_url("**/trials/3")
    # In a field, a letter is a letter.
    page.goto(f"{STUDY}/trials")
    page.keyboard.press("/")
    page.keyboard.type("j?k")
    expect(page.get_by_label("Filter")).to_have_value("j?k")
    expect(page.get_by_role("dialog")).to_have_count(0)


def commands_go_anywhere(page):
    page.goto("/console")
    page.keyboard.press("Control+K")
    dialog = page.get_by_role("dialog", name="Go to")
    options = dialog.get_by_role("option")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    expect(options.first).to_contain_text("Overview")
    page.keyboard.type("tabl")
    expect(options).to_have_text([re.compile(r"^table\s*study in p, ")])
    expect(options.first).to_have_attribute("aria-selected", "true")
    check(page, "commands")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{STUDY}")
    # The tabs of a study are commands on its pages; the arrow keys choose among several.
    page.keyboard.press("Control+K")
    expect(options.first).to_be_visible()
    names = options.locator("span:first-child").all_inner_texts()
    assert "Explore" in names and "Workers" in names, names
    # A command chosen before jobs and studies are found stays chosen.
    page.keyboard.press("ArrowDown")
    expect(dialog.locator("[data-shown='']")).to_be_visible()
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Control+K")
    page.keyboard.type("trials")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{STUDY}/trials")


def plots_show_and_open_trials(page):
    page.set_viewport_size({"width": 1280, "height": 2200})
    page.goto(f"{STUDY}/explore")
    page.wait_for_function(DRAWN)
    figure = page.locator("figure[data-plot=history]")
    # The best result holds up to the latest trial.
    points = page.evaluate("""() => {
      const { data } = document.querySelector("figure[data-plot=history] .canvas");
      const line = data.find((trace) => trace.name === "best so far");
      return [line.x.at(-1), Math.max(...data[0].x), line.y.at(-1), Math.min(...data[0].y)];
    }""")
    assert points[0] == points[1] == 12 and points[2] == points[3], points
    # The card of the trial under the pointer; a click opens the trial.
    box = figure.locator(".scatterlayer .trace").first.locator(".point").nth(4).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
    card = figure.locator(".card")
    expect(card).to_be_visible()
    expect(card).to_contain_text("Trial 5")
    for text in ("loss", "rate", "kind", "click to open the trial"):
        expect(card).to_contain_text(text)
    photograph(page, "card")
    page.mouse.move(5, 5)
    expect(card).to_be_hidden()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(f"**{STUDY}/trials/5")

    # Parallel axes are moved with the arrow keys, and dragged.
    page.go_back()
    page.wait_for_function(DRAWN)
    axes = page.locator("figure[data-plot=parallelCoordinates] .axes button")
    names = lambda: axes.evaluate_all("all => all.map((axis) => axis.dataset.axis)")
    expect(axes).to_have_count(3)
    assert names() == ["parameters.rate", "parameters.kind", "metric.loss"], names()
    axes.first.focus()
    page.keyboard.press("ArrowRight")
    expect(axes.nth(1)).to_be_focused()
    assert names() == ["parameters.kind", "parameters.rate", "metric.loss"], names()
    drawn = page.locator("figure[data-plot=parallelCoordinates] .annotation-text").all_text_contents()
    assert drawn.index("kind") < drawn.index("rate") < drawn.index("loss"), drawn
    from_, to = axes.nth(2).bounding_box(), axes.nth(0).bounding_box()
    page.mouse.move(from_["x"] + 20, from_["y"] + 20)
    page.mouse.down()
    page.mouse.move(to["x"] + to["width"] / 2, to["y"] + 20, steps=5)
    page.mouse.up()
    expect(axes.first).to_have_attribute("data-axis", "metric.loss")
    check(page, "axes")


def surface_or_cells(page):
    page.set_viewport_size({"width": 1280, "height": 3000})
    page.goto("/console/projects/p/locations/l/studies/surface/explore")
    page.wait_for_function(DRAWN)
    kinds = """() => document.querySelector("figure[data-plot=contour] .canvas").data.map((trace) => trace.type)"""
    assert page.evaluate(kinds) == ["contour", "scatter"], page.evaluate(kinds)
    # The lowest place of the surface is near the optimum, 0.3 and 0.7.
    lowest = page.evaluate("""() => {
      const [{ x, y, z }] = document.querySelector("figure[data-plot=contour] .canvas").data;
      let best = [Infinity, 0, 0];
      z.forEach((row, up) => row.forEach((value, across) => { if (value !== null && value < best[0]) best = [value, x[across], y[up]]; }));
      return best;
    }""")
    assert abs(lowest[1] - 0.3) < 0.15 and abs(lowest[2] - 0.7) < 0.15, lowest
    page.locator("figure[data-plot=contour]").get_by_role("button", name="Show the means of cells").click()
    page.wait_for_function(f"() => ({kinds})()[0] === 'heatmap'")


def far_results_are_at_the_end_of_their_axis(page):
    page.goto("/console/projects/p/locations/l/studies/far/explore")
    page.wait_for_function(DRAWN)
    figure = page.locator("figure[data-plot=parallelCoordinates]")
    ends = figure.locator(".annotation-text").all_text_contents()
    assert any(end.startswith("≥ ") and float(end[2:]) < 2 for end in ends), ends
    expect(figure).to_contain_text("1 result is beyond the end of its axis")
    # The others spread over the axis, and the far one is at its end.
    shares = page.evaluate("""() => {
      const { data } = document.querySelector("figure[data-plot=parallelCoordinates] .canvas");
      return data.flatMap(({ x, y }) => y.filter((share, at) => share !== null && x[at] === 1)).sort((a, b) => a - b);
    }""")
    assert len(shares) == 12 and shares[-1] == 1 and shares[-2] > 0.8 and shares[0] < 0.1, shares


def trial_shows_its_curve_and_its_log(page):
    page.goto(TRIAL)
    figure = page.locator("figure.curve")
    assert figure.locator(".steps text").all_text_contents() == ["1", "2", "3"]
    assert figure.locator(".values text").all_text_contents() == ["0.1", "0.15", "0.2", "0.25", "0.3"]
    box = figure.locator(".drawing").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.52, box["y"] + 20)
    expect(figure.locator("output")).to_have_text("2: 0.2")
    expect(figure.locator(".at")).to_have_count(2)
    page.mouse.move(2, 2)
    expect(figure.locator("output")).to_have_text("")
    with page.expect_download() as download:
        page.locator(".log").filter(has_text="stdout").get_by_role("link", name="Save").click()
    assert download.value.suggested_filename == "first-trial-1.attempt-1.master-0.stdout.log", download.value.suggested_filename
    with open(download.value.path(), encoding="utf-8") as file:
        assert file.read() == "loss=0.1 step=1\nloss=0.2 step=2\nloss=0.3 step=3\n"
    # Measurements are paged, the latest first.
    page.goto("/console/projects/p/jobs/long/trials/1")
    steps = lambda: page.get_by_role("region", name="Measurements").locator("tbody td:first-child").all_inner_texts()
    assert steps() == [str(step) for step in range(40, 25, -1)], steps()
    page.get_by_role("link", name="Earlier").click()
    page.wait_for_url("**measurements=15")
    assert steps() == [str(step) for step in range(25, 10, -1)], steps()
    page.get_by_role("link", name="Earlier").click()
    page.wait_for_url("**measurements=30")
    assert steps() == [str(step) for step in range(10, 0, -1)], steps()
    expect(page.get_by_role("link", name="Earlier")).to_have_count(0)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        check(page, f"trial-{width}")
    for bad, text in (("-1", "use a number from 0"), ("x", "use a number from 0")):
        assert page.goto(f"{TRIAL}?measurements={quote(bad)}").status == 400
        expect(page.locator("main")).to_contain_text(text)


def check(page, name):
    is_within_width(page)
    photograph(page, name)
    found = Axe().run(page)
    assert found.violations_count == 0, f"{page.url}\n{json.dumps(found.response['violations'], indent=1)[:3000]}"


with opened(expected="status of 400", viewport={"width": 1280, "height": 900}) as page:
    sorts_and_chooses_columns(page)
    keys_move_through_rows(page)
    commands_go_anywhere(page)
    plots_show_and_open_trials(page)
    surface_or_cells(page)
    far_results_are_at_the_end_of_their_axis(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    trial_shows_its_curve_and_its_log(page)
