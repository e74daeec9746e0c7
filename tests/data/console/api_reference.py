"""Shows the OpenAPI document of a server in Redoc: `URL FOLDER`, where FOLDER has the bundle of Redoc."""

import functools
import http.server
import json
import sys
import threading
import urllib.request

from browser import expect, opened, photograph

PAGE = b"""<!doctype html><meta charset="utf-8"><title>Tunesmith</title><link rel="icon" href="data:,">
<div id="reference"></div><script src="redoc.standalone.js"></script><script>
const options = {expandResponses: "200", jsonSampleExpandLevel: 1, schemasExpansionLevel: 1};
const place = document.getElementById("reference");
const rendered = new Promise((done) => Redoc.init("openapi.json", options, place, (error) => done(String(error ?? ""))));
</script>"""

with urllib.request.urlopen(f"{sys.argv[1]}/openapi.json") as response:
    document = response.read()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page and the document beside the bundle: a server refuses pages of other origins."""

    def do_GET(self):
        kind, content = {"/": ("text/html", PAGE), "/openapi.json": ("application/json", document)}.get(self.path, (None, b""))
        if kind is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


operations = [
    (operation["operationId"], operation["summary"], method.upper(), path)
    for path, methods in json.loads(document)["paths"].items()
    for method, operation in methods.items()
]
handler = functools.partial(Handler, directory=sys.argv[2])
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, opened() as page:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The logo of the renderer.
    page.route("https://cdn.redoc.ly/**", lambda route: route.fulfill(content_type="image/svg+xml", body="<svg xmlns='http://www.w3.org/2000/svg'/>"))
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    assert page.evaluate("rendered") == "", "the document was not rendered"
    expect(page.locator("[data-section-id^='operation/']")).to_have_count(len(operations))
    for identifier, summary, method, path in operations:
        section = page.locator(f"[id='operation/{identifier}']")
        text = section.inner_text()
        assert summary.rstrip(".") in text, (identifier, text[:500])
        assert path in section.text_content(), (identifier, path)
        assert "Something went wrong" not in text and "undefined" not in text, (identifier, text)
    suggested = page.locator("[id='operation/ml.projects.locations.studies.trials.suggest']").inner_text()
    assert "suggestionCount" in suggested and "clientId" in suggested, suggested
    photograph(page, "api_reference")
    server.shutdown()
print("ok")
