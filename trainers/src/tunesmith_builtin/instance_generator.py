"""Turns a row of raw data into the numeric instance that the model takes.

Training uses this file itself, and a copy is written beside ``metadata.json``; it needs only Python::

    python instance_generator.py --raw_data_string="5.1,3.5,red"

The raw row has the columns of the training data without the target (and without the weight, if there was one).
"""

from __future__ import annotations

import argparse
import csv
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Encoder:
    """Encodes raw rows by the ``features`` of ``metadata.json``."""

    def __init__(self, features: Sequence[dict[str, Any]]) -> None:
        self.features = features

    @property
    def width(self) -> int:
        """Number of raw columns."""
        return len(self.features)

    def encode(self, row: Sequence[str]) -> list[float]:
        """Numbers of the raw ``row``: the number itself, one per known category, or one per hash bucket.

        Raises:
            ValueError: if the row has another number of columns, or text in a numerical column.
        """
        if len(row) != self.width:
            raise ValueError(f"{len(row)} columns are given, {self.width} are required")
        encoded: list[float] = []
        for index, (feature, field) in enumerate(zip(self.features, row, strict=True)):
            text = field.strip()
            kind = feature["type"]
            if kind == "numerical":
                try:
                    encoded.append(float(text) if text else feature["missing"])
                except ValueError:
                    raise ValueError(f"column {index + 1}: {text!r} is not a number") from None
            elif kind == "one_hot":
                encoded.extend(float(text == category) for category in feature["categories"])
            elif kind == "hashed":
                bucket = zlib.crc32(text.encode()) % feature["buckets"]
                encoded.extend(float(bucket == each) for each in range(feature["buckets"]))
        return encoded


def main() -> None:
    """Prints the instance of ``--raw_data_string`` as JSON, or writes it to ``--output``."""
    parser = argparse.ArgumentParser(description="Prints the numeric instance of a row of raw data.")
    parser.add_argument("--raw_data_string", required=True, help="columns without the target, separated by commas")
    parser.add_argument("--metadata", type=Path, default=Path(__file__).with_name("metadata.json"))
    parser.add_argument("--output", type=Path, help="file for the instance, for example instances.json")
    arguments = parser.parse_args()
    metadata = json.loads(arguments.metadata.read_text(encoding="utf-8"))
    row = next(csv.reader([arguments.raw_data_string], skipinitialspace=True), [])
    try:
        instance = json.dumps(Encoder(metadata["features"]).encode(row))
    except ValueError as error:
        parser.error(str(error))
    if arguments.output is None:
        print(instance)
    else:
        arguments.output.write_text(instance + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
