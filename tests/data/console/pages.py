"""Opens every page in light and dark, wide and narrow, and uses it with the keyboard."""

from axe_playwright_python.sync_playwright import Axe
from browser import expect, is_within_width, opened, photograph

JOB = "/console/projects/p/jobs/first"
PAGES = {
    "overview": "/console",
    "jobs": "/console/jobs",
    "jobs-without-a-match": "/console/jobs?filter=state%3AFAILED",
    "jobs-with-a-bad-filter": "/console/jobs?filter=nonsense%3A%3A(",
    "job": JOB,
    "trials": f"{JOB}/trials",
    "trial": f"{JOB}/trials/1",
    "configuration": f"{JOB}/configuration",
    "program": "/console/projects/p/jobs/plain",
    "output": "/console/projects/p/jobs/plain/output",
    "new-job": "/console/new",
    "new-study": "/console/new-study",
    "keys": "/console/keys",
    "login": "/console/login",
    "workers": "/console/workers",
    "workers-for-an-hour": "/console/workers?hours=1",
    "access": "/console/access",
    "server": "/console/server",
}

for theme in ("light", "dark"):
    for width in (1280, 390):
        with opened(viewport={"width": width, "height": 844}, color_scheme=theme) as page:
            for name, path in PAGES.items():
                response = page.goto(path)
                assert response.status == 200, (path, response.status)
                expect(page.locator("h1")).to_be_visible()
                is_within_width(page)
                photograph(page, f"{name}-{theme}-{width}")
                if width == 1280 or theme == "light":
                    found = Axe().run(page)
                    assert found.violations_count == 0, f"{path} {theme} {width}\n{found.generate_report()}"

with opened(viewport={"width": 1280, "height": 844}, color_scheme="light") as page:
    # From the list to a trial and back, by keyboard and links.
    page.goto("/console")
    page.keyboard.press("/")
    page.wait_for_url("**/console/jobs")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter")).to_be_focused()
    page.keyboard.type("jobId:fir*")
    page.keyboard.press("Enter")
    page.wait_for_url("**filter=jobId*")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="first", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("first")
    page.get_by_role("link", name="Trials", exact=True).press("Enter")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="1", exact=True).press("Enter")
    page.wait_for_url("**/trials/1")
    expect(page.locator("figure.curve polyline")).to_have_count(1)
    expect(page.locator("pre").filter(has_text="<script>injected()</script>")).to_be_visible()
    page.keyboard.press("]")
    page.wait_for_url("**/trials/2")
    page.keyboard.press("[")
    page.wait_for_url("**/trials/1")
    page.go_back()
    page.wait_for_url("**/trials/2")

    # Times are local ones, with the exact one as their title.
    time = page.locator("time").first
    assert "UTC" not in time.inner_text() and time.get_attribute("datetime") in time.get_attribute("title")

    # The theme stays chosen.
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
