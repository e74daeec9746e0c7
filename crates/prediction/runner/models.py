# Models by framework: loading from a folder, and prediction.

import importlib
import inspect
import os
import pickle
import re
import sys
import zlib

TENSORFLOW_FILES = ("saved_model.pb", "saved_model.pbtxt")
XGBOOST_FILE = "model.bst"
PICKLE_FILES = ("model.joblib", "model.pkl")

# The part of a pickle that is searched for the version of scikit-learn.
MAX_SEARCHED = 64 << 20

NO_TENSORFLOW = (
    "TensorFlow models are not supported: serve the model from a custom prediction routine (predictionClass) that loads it"
)


def load(folder, framework, prediction_class, package_uris):
    """Loads the model of `folder`, an object with the methods `predict(instances, options)` and `describe()`."""
    if prediction_class:
        return RoutineModel(folder, prediction_class, package_uris)
    found = [name for name in TENSORFLOW_FILES + (XGBOOST_FILE,) + PICKLE_FILES if os.path.exists(os.path.join(folder, name))]
    if framework == "TENSORFLOW":
        raise PredictionError(FAILED_TO_LOAD_MODEL, NO_TENSORFLOW)
    if framework == "SCIKIT_LEARN":
        names = [name for name in PICKLE_FILES if name in found]
        if not names:
            detail = "Could not find either model.joblib or model.pkl in %s" % folder
            raise PredictionError(FAILED_TO_LOAD_MODEL, detail + files_of(folder))
        return sklearn_model(read_pickle(os.path.join(folder, names[0])))
    if framework == "XGBOOST":
        if XGBOOST_FILE in found:
            return XgboostModel(read_booster(os.path.join(folder, XGBOOST_FILE)))
        names = [name for name in PICKLE_FILES if name in found]
        if not names:
            detail = "Could not find any of model.bst, model.joblib or model.pkl in %s" % folder
            raise PredictionError(FAILED_TO_LOAD_MODEL, detail + files_of(folder))
        return xgboost_model(read_pickle(os.path.join(folder, names[0])))
    if len(found) > 1:
        detail = "Multiple model files are found in the model_path: %s" % ", ".join(found)
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail)
    if not found:
        detail = "Could not find a model file in %s: model.joblib, model.pkl or model.bst, unless predictionClass is given"
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail % folder + files_of(folder))
    name = found[0]
    if name in TENSORFLOW_FILES:
        raise PredictionError(FAILED_TO_LOAD_MODEL, NO_TENSORFLOW)
    if name == XGBOOST_FILE:
        return XgboostModel(read_booster(os.path.join(folder, name)))
    model = read_pickle(os.path.join(folder, name))
    return xgboost_model(model) if "xgboost" in module_of(model) else sklearn_model(model)


def files_of(folder):
    names = sorted(os.listdir(folder))
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return "; its files are: %s" % shown if names else "; it is empty"


def module_of(model):
    return type(model).__module__


def class_of(model):
    return "%s.%s" % (module_of(model), type(model).__name__)


def read_pickle(path):
    try:
        if path.endswith(".joblib"):
            import joblib

            return joblib.load(path)
        with open(path, "rb") as file:
            return pickle.load(file)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        text = str(error) or type(error).__name__
        detail = "Could not load the model: %s. %s." % (path, text.rstrip("."))
        if "unsupported pickle protocol" in text:
            detail += " Please make sure the model was exported using python %d. Otherwise, please specify the correct " % (
                sys.version_info[0]
            )
            detail += "'python_version' parameter when deploying the model."
        detail += written_by(path)
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail) from error


def written_by(path):
    """A sentence on the version of scikit-learn that wrote the pickle, and the one that reads it."""
    version = sklearn_version_in(path)
    if version is None:
        return ""
    text = " The file was written with scikit-learn %s" % version
    installed = installed_version("sklearn")
    if installed is None:
        return text + "; this interpreter, %s, has no scikit-learn." % sys.executable
    return text + "; this interpreter, %s, has scikit-learn %s." % (sys.executable, installed)


def sklearn_version_in(path):
    """The value of `_sklearn_version`, which estimators store in their pickles; None without one."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SEARCHED)
        if content[:1] == b"\x78" or content[:2] == b"\x1f\x8b":
            content = zlib.decompressobj(47).decompress(content, MAX_SEARCHED)
    except (OSError, zlib.error):
        return None
    found = re.search(rb"_sklearn_version[^0-9]{1,12}?(?:[\x00-\x20][\x00]{0,7})?(\d+\.\d[\w.]*?)[^\w.]", content, re.DOTALL)
    return found.group(1).decode("ascii", "replace") if found else None


def installed_version(name):
    module = sys.modules.get(name)
    if module is None:
        try:
            module = importlib.import_module(name)
        except Exception:
            return None
    return getattr(module, "__version__", None)


class Model:
    def describe(self):
        """The framework, and the versions of the packages that the model uses."""
        names = {"sklearn": "scikit-learn", "xgboost": "xgboost", "numpy": "numpy"}
        versions = {}
        for module, package in names.items():
            version = getattr(sys.modules.get(module), "__version__", None)
            if version is not None:
                versions[package] = str(version)
        return {"framework": self.framework, "versions": versions}


def as_list(outputs, what):
    if hasattr(outputs, "tolist"):
        outputs = outputs.tolist()
    if isinstance(outputs, list):
        return outputs
    detail = "The predict function of %s returned %s; a numpy ndarray or a list is expected" % (what, class_of(outputs))
    raise PredictionError(INVALID_OUTPUTS, detail)


class SklearnModel(Model):
    framework = "SCIKIT_LEARN"

    def __init__(self, model):
        self.model = model

    def predict(self, instances, options):
        options.pop("signature_name", None)
        try:
            outputs = self.model.predict(instances, **options)
        except Exception as error:
            raise PredictionError(FAILED_TO_RUN_MODEL, "Exception during sklearn prediction: %s" % error) from error
        return as_list(outputs, class_of(self.model))


def sklearn_model(model):
    # Pipelines of user code have a module of their own.
    if "sklearn" not in module_of(model) and not any("sklearn" in base.__module__ for base in type(model).__mro__):
        detail = "Invalid model type detected: %s. Please make sure the model file is an exported sklearn model or pipeline."
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail % class_of(model))
    return SklearnModel(model)


def read_booster(path):
    import_xgboost()
    import xgboost

    try:
        return xgboost.Booster(model_file=path)
    except Exception as error:
        text = str(error).strip().splitlines()
        detail = "Could not load the model: %s. %s." % (path, (text[-1] if text else type(error).__name__).rstrip("."))
        with open(path, "rb") as file:
            start = file.read(4)
        if start == b"binf":
            detail += (
                " The file has the binary format of XGBoost before 2.1, which XGBoost 3.1 and later no longer read: load it with"
                " xgboost<3, save it with Booster.save_model('model.json'), and deploy that file as model.bst. This"
                " interpreter has XGBoost %s." % xgboost.__version__
            )
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail) from error


def import_xgboost():
    try:
        importlib.import_module("xgboost")
    except ImportError as error:
        detail = "Could not import xgboost into %s: %s." % (sys.executable, error)
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail) from error


def xgboost_model(model):
    if "xgboost" not in module_of(model):
        detail = "Invalid model type detected: %s. Please make sure the model file is an exported xgboost model."
        raise PredictionError(FAILED_TO_LOAD_MODEL, detail % class_of(model))
    # An estimator takes arrays, a booster matrices of XGBoost.
    return XgboostEstimator(model) if "sklearn" in module_of(model) else XgboostModel(model)


def rows(instances):
    """Instances as an array. Text is a line of CSV with numbers, as for built-in algorithms."""
    import numpy

    if instances and all(isinstance(instance, str) for instance in instances):
        parsed = [[float(value) if value.strip() else float("nan") for value in line.split(",")] for line in instances]
        return numpy.array(parsed)
    return numpy.array(instances)


def threads():
    """The threads of this worker; None for those that the model was trained with."""
    number = os.environ.get("OMP_NUM_THREADS", "")
    return int(number) if number.isdigit() else None


class XgboostModel(Model):
    framework = "XGBOOST"

    def __init__(self, booster):
        self.booster = booster
        if threads():
            booster.set_param({"nthread": threads()})

    def predict(self, instances, options):
        import xgboost

        options.pop("signature_name", None)
        try:
            matrix = xgboost.DMatrix(rows(instances))
        except Exception as error:
            raise PredictionError(INVALID_INPUTS, "Could not initialize DMatrix from inputs: %s" % error) from error
        # Instances are lists without names.
        options.setdefault("validate_features", False)
        try:
            outputs = self.booster.predict(matrix, **options)
        except Exception as error:
            raise PredictionError(FAILED_TO_RUN_MODEL, "Exception during xgboost prediction: %s" % error) from error
        return as_list(outputs, "the booster")


class XgboostEstimator(Model):
    framework = "XGBOOST"

    def __init__(self, model):
        self.model = model
        if threads():
            model.set_params(n_jobs=threads())

    def predict(self, instances, options):
        options.pop("signature_name", None)
        try:
            outputs = self.model.predict(rows(instances), **options)
        except Exception as error:
            raise PredictionError(FAILED_TO_RUN_MODEL, "Exception during xgboost prediction: %s" % error) from error
        return as_list(outputs, class_of(self.model))


class RoutineModel(Model):
    """Custom prediction routine: a class with `from_path(model_dir)` and `predict(instances, **kwargs)`."""

    framework = "CUSTOM_CLASS"

    def __init__(self, folder, name, package_uris):
        module, _, attribute = name.rpartition(".")
        try:
            loaded = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            detail = (
                "%s cannot be found. Please make sure (1) predictionClass is the fully qualified function name, and (2) "
                "predictionClass uses the correct package name as provided by the package_uris: %s"
            )
            raise PredictionError(INVALID_USER_CODE, detail % (name, package_uris)) from error
        except Exception as error:
            detail = "%s cannot be imported: %s" % (module, error)
            raise PredictionError(INVALID_USER_CODE, detail) from error
        if not hasattr(loaded, "from_path"):
            detail = "User provided model class %s must implement the from_path method." % name
            raise PredictionError(INVALID_USER_CODE, detail)
        if not hasattr(loaded, "predict"):
            detail = "The provided model class, %s, is missing the required predict method." % name
            raise PredictionError(INVALID_USER_CODE, detail)
        positional = positional_arguments(loaded.predict)
        if positional is not None and positional != 2:
            detail = "The provided model class, %s, has a predict method with %d positional arguments; it takes self and instances"
            raise PredictionError(INVALID_USER_CODE, detail % (name, positional))
        try:
            self.model = loaded.from_path(folder)
        except Exception as error:
            detail = "%s.from_path failed: %s: %s" % (name, type(error).__name__, error)
            raise PredictionError(INVALID_USER_CODE, detail) from error

    def predict(self, instances, options):
        try:
            return self.model.predict(instances, **options)
        except Exception as error:
            text = str(error)
            detail = text if text else type(error).__name__
            raise PredictionError(FAILED_TO_RUN_MODEL, detail) from error


def positional_arguments(function):
    """The number of required and optional positional arguments with `self`; None where it cannot be told."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(parameter.kind == inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    required = [one for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
    return len(required)
