# Requests and replies of online prediction.

import json

REQUIRED_FORM = (
    "The service expects the request to be a valid JSON object with a list-valued attribute called `instances`, i.e. "
    '`{"instances": [...]}`.'
)

# The part of an invalid request that the reply repeats.
MAX_REPEATED = 1000


def respond(model, body):
    """The reply to a request: {"predictions": [...]} or {"error": text}, and whether it succeeded."""
    try:
        instances, options = parsed(body)
    except ValueError as error:
        return encoded({"error": str(error)}), False
    try:
        predictions = model.predict(instances, options)
    except PredictionError as error:
        return failure("Prediction failed: %s" % error.detail, error)
    except Exception as error:
        return failure("Prediction failed: unknown error.", error)
    try:
        return encoded({"predictions": predictions}), True
    except Exception as error:
        return failure("Failed to json encode the prediction response: %s" % error, error)


def parsed(body):
    """The instances and the other fields of a request."""
    if not body:
        raise ValueError("Empty request body. " + REQUIRED_FORM)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("The request did not contain valid JSON. %s The request is not UTF-8: %s" % (REQUIRED_FORM, error))
    shown = text if len(text) <= MAX_REPEATED else text[:MAX_REPEATED] + "..."
    try:
        request = json.loads(text)
    except (ValueError, RecursionError):
        form = "The request did not contain valid JSON. %s The received request was:\n%s"
        raise ValueError(form % (REQUIRED_FORM, shown))
    if not isinstance(request, dict) or not isinstance(request.get("instances"), list):
        raise ValueError("Invalid request. %s The received request was:\n%s" % (REQUIRED_FORM, shown))
    return request.pop("instances"), request


# Set once the memory of the worker was used up: it ends after its reply.
exhausted = []


def is_out_of_memory(error):
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def failure(text, error):
    if is_out_of_memory(error):
        exhausted.append(True)
        text = "Prediction failed: the worker has reached its memory limit, and is replaced"
    trace = user_traceback(error)
    log(text + ("\n" + trace if trace else ""))
    reply = {"error": text}
    if trace:
        reply["tunesmith"] = {"traceback": trace}
    return encoded(reply), False


def encoded(reply):
    # NaN and infinity are not JSON.
    return json.dumps(reply, allow_nan=False).encode("utf-8")


def log(text):
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except Exception:
        # A closed or replaced standard error must not end the worker.
        pass
