# Errors, with the texts of AI Platform's prediction server.

import traceback

FAILED_TO_LOAD_MODEL = (0, "Failed to load model")
INVALID_INPUTS = (1, "Invalid inputs")
FAILED_TO_RUN_MODEL = (2, "Failed to run the provided model")
INVALID_OUTPUTS = (3, "There was a problem processing the outputs")
INVALID_USER_CODE = (4, "There was a problem processing the user code")

MAX_TRACEBACK = 8000


class PredictionError(Exception):
    """A failure with the code and the text of AI Platform; str() is "<kind>: <detail> (Error code: <code>)"."""

    def __init__(self, kind, detail):
        Exception.__init__(self, detail)
        self.code, self.kind = kind
        self.detail = detail

    def __str__(self):
        return "%s: %s (Error code: %d)" % (self.kind, self.detail, self.code)


def user_traceback(error):
    """The traceback of `error` without the frames of this program, which are those of `-c`."""
    lines = []
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if not isinstance(error, PredictionError):
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame[0] != "<string>"]
            text = "".join(traceback.format_list(frames) + traceback.format_exception_only(type(error), error))
            lines.append(text if not frames else "Traceback (most recent call last):\n" + text)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    text = "\n".join(reversed(lines)).strip()
    # The end names the error.
    return text if len(text) <= MAX_TRACEBACK else "[...]" + text[-MAX_TRACEBACK:]
