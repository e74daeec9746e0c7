"""Writes configurations of a job and of a study by keyboard, with the completion of their keys and values."""

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

# Texts with the caret at ¦, and the first proposals there; none where nothing can be completed.
PLACES = [
    ("¦", ["jobId", "labels", "trainingInput"]),
    ("trainingInput:\n  hyperparameters:\n    go¦\n    maxTrials: 3\n  masterConfig: {}\n", ["goal", "algorithm"]),
    ("trainingInput:\n  hyperparameters:\n    go¦al: MINIMIZE\n", ["goal", "algorithm"]),
    ("trainingInput:\n  hyperparameters:\n    goal: ¦\n", ["MAXIMIZE", "MINIMIZE"]),
    ("trainingInput:\n  hyperparameters:\n    params:\n    - {parameterName: x, type: ¦}\n", ["DOUBLE", "INTEGER", "CATEGORICAL"]),
    ("trainingInput:\n  hyperparameters:\n    params:\n    - {parameterName: x, ty¦}\n    - {type: DOUBLE}\n", ["type", "scaleType"]),
    ("hyperparameters:\n  params:\n  - parameterName: x\n    scale¦\n    type: DOUBLE\n", ["scaleType"]),
    ("hyperparameters:\n  params:\n  - parameterName: x\n  - ¦\n", ["categoricalValues"]),
    ("trainingInput:\n  tunesmith: {metricFromStdout: ¦}\n", ["true", "false"]),
    ('{"trainingInput": {"hyperparameters": {"goal": "MI¦"}}}', ["MINIMIZE", "MAXIMIZE"]),
    ("trainingInput: # a ¦\n", []),
    ("trainingInput:\n  hyperparameters:\n    goal:¦\n", []),
    ("trainingInput:\n  masterConfig:\n    containerCommand: |\n      go¦\n", []),
    ("trainingInput:\n  tunesmith:\n    environment:\n      A: ¦\n", []),
]

WRITTEN = """\
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    params:
    - parameterName: x
      type: DOUBLE
      maxValue: 1
"""


def mark(text, page, marked):
    """Fills in `marked` with the caret at its mark."""
    caret = marked.index("¦")
    text.fill(marked.replace("¦", ""))
    text.evaluate("(field, caret) => field.setSelectionRange(caret, caret)", caret)


with opened(viewport={"width": 1280, "height": 844}) as page:
    page.goto("/console/new")
    text = page.get_by_label("Configuration in YAML or JSON")
    offered = page.get_by_role("listbox", name="Completions")
    options = offered.get_by_role("option")
    names = offered.locator("[role=option] code")
    status = page.locator("section p[role=status].hidden")
    expect(page.get_by_text("The configuration is valid.", exact=False)).to_be_visible()

    for marked, expected in PLACES:
        mark(text, page, marked)
        text.press("Control+Space")
        if expected:
            expect(options.first).to_be_visible()
            assert names.all_inner_texts()[: len(expected)] == expected, (marked, names.all_inner_texts())
            text.press("Escape")
        else:
            expect(status).to_have_text("Nothing to complete here.")
        expect(offered).to_be_hidden()
        expect(text).to_be_focused()

    # A whole configuration, by keyboard only: names are completed as they are written, values are offered after their keys.
    text.fill("")
    text.press_sequentially("tr")
    expect(options).to_have_text(["trainingInput What the job runs and tunes."])
    expect(text).to_have_attribute("aria-activedescendant", options.first.get_attribute("id"))
    text.press("Tab")
    expect(text).to_have_value("trainingInput:\n  ")
    text.press_sequentially("hyp")
    expect(names).to_have_text(["hyperparameters"])
    text.press("Enter")
    text.press_sequentially("go")
    expect(names.first).to_have_text("goal")
    text.press("Enter")
    expect(names).to_have_text(["MAXIMIZE", "MINIMIZE"])
    assert text.get_attribute("aria-activedescendant") is None, "values are not chosen before they are asked for"
    text.press("ArrowDown")
    text.press("ArrowDown")
    expect(offered.get_by_role("option", selected=True)).to_have_text("MINIMIZE Smaller is better.")
    photograph(page, "completion")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    text.press("Enter")
    expect(offered).to_be_hidden()
    text.press("Enter")
    text.press_sequentially("    par")
    text.press("ArrowDown")
    text.press("ArrowUp")
    text.press("Enter")
    text.press_sequentially("parameterN")
    expect(names).to_have_text(["parameterName"])
    text.press("Enter")
    text.press_sequentially("x\n      ty")
    expect(names.first).to_have_text("type")
    text.press("Enter")
    text.press_sequentially("DOUB")
    expect(names).to_have_text(["DOUBLE"])
    text.press("Enter")
    # What is written in full is not offered, and Enter ends the line.
    text.press_sequentially("\n      maxValue: 1\n")
    expect(text).to_have_value(WRITTEN)
    expect(offered).to_be_hidden()

    # A completion can be undone; a click accepts it as well, and the keyboard stays in the text.
    text.press("Control+z")
    text.fill(WRITTEN + "  sche")
    text.press("End")
    text.press("Control+Space")
    options.first.click()
    expect(text).to_have_value(WRITTEN + "  scheduling:\n    ")
    expect(text).to_be_focused()
    text.press("Control+z")
    expect(text).to_have_value(WRITTEN + "  sche")

    # The list moves with the text, and stays within a narrow window.
    page.set_viewport_size({"width": 390, "height": 844})
    text.press("End")
    text.press("Control+Space")
    expect(offered).to_be_visible()
    box = offered.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 844, box
    is_within_width(page)
    photograph(page, "completion-narrow")
    page.get_by_label("Project").focus()
    expect(offered).to_be_hidden()

    # The configuration of a study has its own keys.
    page.goto("/console/new-study")
    expect(page.get_by_text("The configuration is valid.", exact=False)).to_be_visible()
    mark(text, page, "metrics:\n- {metric: loss, ¦}\nparameters: []\n")
    text.press("Control+Space")
    expect(names).to_have_text(["goal", "safetyConfig"])
    mark(text, page, "studyConfig:\n  metrics: []\n  alg¦")
    text.press("Control+Space")
    expect(names).to_have_text(["algorithm"])
