"""Formats and recipes of the example package."""

import os
from dataclasses import dataclass
from enum import Enum


class Format(Enum):
    E4M3 = (448, 448)
    HYBRID = (448, 57344)


@dataclass
class Recipe:
    margin: int = 0
    format: Format = Format.HYBRID
    power_2_scales: bool = os.getenv("ENGINE_POWER_2", "0") == "1"
