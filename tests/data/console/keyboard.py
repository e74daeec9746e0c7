"""Submits a job and finds its best trial with the keyboard only."""

import re

from browser import expect, opened

CONFIG = """\
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 3
    algorithm: RANDOM_SEARCH
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}
  masterConfig: {containerCommand: [sh, -c, 'for word; do case $word in --x=*) echo loss=${word#--x=};; esac; done', trainer]}
  tunesmith: {metricFromStdout: true, seed: 7}
"""


def tab_to(page, target, key="Tab"):
    """Presses the key until `target` has the focus, which must be visible."""
    expect(target).to_be_visible()
    for _ in range(80):
        page.keyboard.press(key)
        if target.evaluate("element => element === document.activeElement"):
            outline = target.evaluate("element => getComputedStyle(element).outlineStyle")
            assert outline != "none", f"the focus is not visible: {target}"
            return
    raise AssertionError(f"the tabulator does not reach {target}")


with opened(viewport={"width": 1280, "height": 844}) as page:
    page.goto("/console")
    tab_to(page, page.get_by_role("link", name="Skip to the content"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("link", name="New job"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/new")
    tab_to(page, page.get_by_label("Project"))
    page.keyboard.type("p")
    tab_to(page, page.get_by_label("Name", exact=True))
    page.keyboard.type("by_keyboard")
    tab_to(page, page.get_by_label("Configuration in YAML or JSON"))
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(CONFIG)
    expect(page.get_by_text("The configuration is valid.", exact=False)).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Submit job"), "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/projects/p/jobs/by_keyboard")
    expect(page.locator("[data-live=badge]")).to_have_text("Succeeded")

    best = page.get_by_role("link", name=re.compile(r"^trial \d$"))
    tab_to(page, best)
    number = best.inner_text().split()[1]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/trials/{number}")
    found = float(page.locator(".figures dd .number").first.inner_text())

    # The table of all trials has no better one.
    tab_to(page, page.get_by_role("link", name="Trials", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url("**/by_keyboard/trials")
    losses = [float(text) for text in page.locator("tbody td.strong").all_inner_texts()]
    assert len(losses) == 3 and min(losses) == found, (losses, found)
