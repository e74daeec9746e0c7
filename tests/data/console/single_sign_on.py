"""People sign in at a provider, with a role, without one, and with an address that is not verified."""

import sys

from axe_playwright_python.sync_playwright import Axe
from browser import is_within_width, opened, photograph

issuer = sys.argv[2]
with opened("Failed to load resource") as page:
    page.goto("/console/jobs?filter=state%3DRUNNING")
    is_within_width(page)
    photograph(page, "login")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.get_by_role("link", name="Sign in with Example").click()
    assert page.url.startswith(issuer), page.url
    page.get_by_placeholder("sub").fill("ada")
    page.get_by_role("button", name="Authorize").click()
    page.wait_for_url("**/console/jobs?filter=state%3DRUNNING")
    page.get_by_text("user:ada@example.com").wait_for()
    # The session is that of the browser, also on a page that another site links to.
    page.goto("/console/new")
    page.get_by_role("heading", name="New job").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in with Example").wait_for()
    for subject, reason in {"eve": "has no role on this server", "mallory": "has not verified the address"}.items():
        page.get_by_role("link", name="Sign in with Example").click()
        page.get_by_placeholder("sub").fill(subject)
        page.get_by_role("button", name="Authorize").click()
        page.get_by_role("alert").filter(has_text=reason).wait_for()
