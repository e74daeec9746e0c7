"""Ticks jobs in the list, compares them, and reads plots, tables and findings, in light and dark, wide and narrow."""

import csv
import io
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

DRAWN = "() => [...document.querySelectorAll('#compare figure')].every((figure) => figure.dataset.drawn)"


def address(*jobs):
    return "/console/compare?" + "&".join(f"job=local/{job}" for job in jobs)


def ticked(page):
    return parse_qs(urlsplit(page.url).query).get("job", [])


with opened(viewport={"width": 1280, "height": 900}, color_scheme="light") as page:
    page.goto("/console/jobs")
    # A job without trials cannot be ticked.
    expect(page.locator("tbody tr")).to_have_count(14)
    expect(page.locator("tbody input[type=checkbox]")).to_have_count(13)
    button = page.locator("#compare-jobs")
    expect(button).to_be_disabled()
    page.get_by_label("Compare low_1").check()
    expect(button).to_be_disabled()
    page.get_by_label("Compare high_2").check()
    expect(button).to_have_text("Compare 2 jobs")
    assert ticked(page) == ["local/low_1", "local/high_2"], page.url
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    # A link keeps the ticks, also those of jobs that the filter hides.
    page.reload()
    expect(page.get_by_label("Compare low_1")).to_be_checked()
    page.get_by_label("Filter").fill("jobId:low*")
    page.get_by_label("Filter").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(6)
    page.get_by_label("Compare low_1").uncheck()
    page.get_by_label("Compare low_3").check()
    page.get_by_role("button", name="Compare 2 jobs").click()
    page.wait_for_url("**/console/compare?**")
    assert sorted(ticked(page)) == ["local/high_2", "local/low_3"], page.url

    page.wait_for_function(DRAWN)
    for figure in ("bestSoFar", "distributions"):
        legend = page.locator(f"figure[data-plot={figure}] .legendtext").all_text_contents()
        assert sorted(legend) == ["high_2", "low_3"], legend
        assert page.locator(f"figure[data-plot={figure}] .scatterlayer .trace").count() == 2
        assert page.locator(f"figure[data-plot={figure}] .scatterlayer .js-line").count() == 2
    assert page.locator("#compared tbody tr").count() == 2
    text = page.inner_text("#tests tbody")
    assert "no two jobs have the same seed" in text and "6 pairs" in text, text
    rows = [[cell.inner_text() for cell in row.locator("th, td").all()] for row in page.locator("#compared tbody tr").all()]
    low, high = sorted(rows)[1], sorted(rows)[0]
    assert low[0].startswith("low_3") and high[0].startswith("high_2"), rows
    assert low[3] == "0" and abs(float(high[3]) - (float(high[2].split()[0]) - float(low[2].split()[0]))) < 1e-4, rows
    best = [cell.inner_text() for cell in page.locator("#parameters tbody tr").first.locator("th, td").all()]
    heads = page.locator("#parameters thead th").all_inner_texts()
    assert best[0] == "x" and sorted(heads[1:]) == ["high_2", "low_3"], (heads, best)
    assert abs(float(best[1 + heads[1:].index("low_3")]) - float(low[2].split()[0])) < 1e-4, (best, low)
    with page.expect_download() as download:
        page.click("figure[data-plot=bestSoFar] [data-save=csv]")
    saved = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
    assert saved[0] == ["job", "trial", "loss <b>"] and {row[0] for row in saved[1:]} == {"low_3", "high_2"}, saved
    page.go_back()
    expect(page.get_by_label("Compare low_3")).to_be_checked()

with opened(expected="400", viewport={"width": 1280, "height": 900}, color_scheme="light") as page:
    response = page.goto(address("low_1", "other"))
    assert response.status == 400
    expect(page.get_by_text("These jobs have different goals")).to_be_visible()
    assert page.locator("#compare").count() == 0
    is_within_width(page)
    page.get_by_role("link", name="Choose jobs").click()
    page.wait_for_url("**/console/jobs")

every = [f"{name}_{seed}" for seed in range(1, 7) for name in ("low", "high")]
for theme in ("light", "dark"):
    for width in (1280, 390):
        with opened(viewport={"width": width, "height": 900}, color_scheme=theme) as page:
            page.goto(address(*every, "plain"))
            page.wait_for_function(DRAWN)
            expect(page.locator(".legendtext")).to_have_count(24)
            expect(page.get_by_text("Job local/plain has no trials")).to_be_visible()
            expect(page.locator("#compared tbody tr")).to_have_count(12)
            cells = page.locator("#tests tbody tr").first.locator("td").all_inner_texts()
            assert cells[0] == "6" and cells[1] == "1" and cells[2] == "1 to 1" and cells[3] == "0.03125", cells
            assert cells[4] == "Worse: its results are not as low.", cells
            reference = page.inner_text("main")
            assert "Against low_1, low_2, low_3, low_4, low_5, low_6 (RANDOM_SEARCH), after 4 trials" in reference, reference
            is_within_width(page)
            photograph(page, f"compare-{theme}-{width}")
            found = Axe().run(page)
            assert found.violations_count == 0, f"{theme} {width}\n{found.generate_report()}"
