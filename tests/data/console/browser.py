"""A page of the browser of this machine, which records what goes wrong on it."""

import contextlib
import os
import sys
import tempfile

from playwright.sync_api import Page, expect, sync_playwright

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server"]

expect.set_options(timeout=60_000)


@contextlib.contextmanager
def opened(expected: str = "", **options):
    """A page of a new browser. The block fails if the page has logged another error than those with the text `expected`, or
    ran the script of a payload."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path="/usr/bin/chromium", args=FLAGS, timeout=120_000, base_url=sys.argv[1], **options)
        context.set_default_timeout(120_000)
        page = context.pages[0]
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.expose_function("injected", lambda: wrong.append("the script of a payload ran"))
        yield page
        context.close()
    wrong = [text for text in wrong if not expected or expected not in text]
    assert not wrong, wrong


def photograph(page: Page, name: str) -> None:
    """Stores the picture of a page, if pictures are wanted."""
    folder = os.environ.get("CONSOLE_PICTURES")
    if folder:
        page.screenshot(path=os.path.join(folder, f"{name}.png"), full_page=True)


# The spacing of text that a page must bear (WCAG 2.2, 1.4.12). Other fonts are as wide.
SPACED_TEXT = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("* { letter-spacing: 0.12em !important; word-spacing: 0.16em !important; line-height: 1.5 !important; }");
  document.adoptedStyleSheets = [sheet];
  const sizes = [document.documentElement.scrollWidth, innerWidth];
  document.adoptedStyleSheets = [];
  return sizes;
}"""


def is_within_width(page: Page) -> None:
    """Fails if the page is wider than the window, also with wide text."""
    for sizes in (page.evaluate("[document.documentElement.scrollWidth, innerWidth]"), page.evaluate(SPACED_TEXT)):
        assert sizes[0] <= sizes[1], f"{page.url} is {sizes[0]} wide"
