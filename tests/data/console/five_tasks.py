"""Does five tasks, each in at most five clicks, keys or entries into fields from Overview.

Usage: five_tasks.py ADDRESS TOKEN_OF_AN_ADMINISTRATOR
"""

import math
import re
import sys
import time

from browser import expect, opened

MOST = 5


class Task:
    """Counts what a person does, beginning at Overview."""

    def __init__(self, page, name):
        self.page, self.name, self.steps = page, name, []
        page.goto("/console")
        self.start = time.monotonic()

    def click(self, target):
        target.click()
        self.steps.append("click")

    def fill(self, target, text):
        target.fill(text)
        self.steps.append("entry")

    def end(self):
        assert len(self.steps) <= MOST, (self.name, self.steps)
        print(f"{self.name}: {len(self.steps)} steps ({', '.join(self.steps)}), {time.monotonic() - self.start:.1f} s")


def copied(page):
    return page.evaluate("navigator.clipboard.readText()")


def find_the_best_trial_and_copy_its_flags(page):
    task = Task(page, "best trial")
    task.click(page.get_by_role("link", name="first", exact=True))
    leader = page.locator("#leaders tbody tr").first
    task.click(leader.get_by_role("button", name=re.compile("as flags")))
    expect(leader.get_by_role("button", name=re.compile("as flags"))).to_have_text("Copied")
    task.end()
    trial = leader.locator("th").inner_text()
    flags = copied(page)
    page.goto(f"/console/projects/p/jobs/first/trials/{trial}")
    best = page.locator(".figures dd .number").first.inner_text()
    assert flags.startswith("--x=") and math.isclose(float(flags[4:]), float(best), rel_tol=1e-5), (flags, best)


def find_why_a_job_failed(page):
    task = Task(page, "failed job")
    task.click(page.get_by_role("region", name="Jobs that need attention").get_by_role("link", name="broken"))
    expect(page.locator(".failure pre")).to_contain_text("No such file or directory: '/data/train.csv'")
    task.end()


def compare_two_studies(page):
    task = Task(page, "comparison")
    task.click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs"))
    task.click(page.get_by_label("Compare first"))
    task.click(page.get_by_label("Compare second"))
    task.click(page.get_by_role("button", name="Compare 2 jobs"))
    expect(page.locator("#compared tbody tr")).to_have_count(2)
    task.end()


def start_a_job_like_this_with_another_range(page):
    task = Task(page, "similar job")
    task.click(page.get_by_role("link", name="first", exact=True))
    task.click(page.get_by_role("link", name="New job from this"))
    # The name is proposed.
    expect(page.get_by_label("Name", exact=True)).to_have_value("first_2")
    task.fill(page.get_by_label("Highest"), "0.5")
    # At once: the entry counts, although the text has not followed it yet.
    task.click(page.get_by_role("button", name="Submit job"))
    page.wait_for_url("**/console/projects/p/jobs/first_2")
    task.end()
    page.get_by_role("link", name="Configuration").click()
    expect(page.locator("pre")).to_contain_text('"maxValue": 0.5')


def give_a_colleague_access(page):
    task = Task(page, "access")
    task.click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Access"))
    task.click(page.get_by_role("button", name="New token"))
    task.fill(page.get_by_label("Owner"), "user:ada@x")
    task.click(page.get_by_role("button", name="Create token"))
    task.click(page.get_by_role("button", name="Copy the token"))
    task.end()
    secret = copied(page)
    assert secret.startswith("tsm_"), secret
    answer = page.request.get("/v1/projects/p/jobs", headers={"authorization": f"Bearer {secret}"})
    assert answer.status == 200, answer.status


with opened(viewport={"width": 1440, "height": 900}, permissions=["clipboard-read", "clipboard-write"]) as page:
    page.goto("/console")
    page.get_by_label("Token").fill(sys.argv[2])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    find_the_best_trial_and_copy_its_flags(page)
    find_why_a_job_failed(page)
    compare_two_studies(page)
    start_a_job_like_this_with_another_range(page)
    give_a_colleague_access(page)
