"""Handlers for flood maps: they list source tiles, stack them into Cloud-Optimized GeoTIFFs, merge and draw them.

Serve the handlers with `--handlers holdfast.apps.flood`.
"""

from importlib.util import find_spec

if missing := [name for name in ("numpy", "PIL", "pystac", "rasterio", "rio_cogeo") if find_spec(name) is None]:
    raise ImportError(
        f"holdfast.apps.flood needs {', '.join(missing)}: install with pip install 'holdfast[geo]'", name=missing[0]
    )

from holdfast.apps.catalog.registering import STAC_INVALID, STAC_REFUSED, STAC_UNREACHABLE
from holdfast.apps.flood.handlers import (
    band_stack,
    finalize,
    finalize_stacks,
    inventory,
    merge,
    quicklook,
    read_stacks,
    register_batch,
    register_stack,
)

__all__ = [
    "STAC_INVALID",
    "STAC_REFUSED",
    "STAC_UNREACHABLE",
    "band_stack",
    "finalize",
    "finalize_stacks",
    "inventory",
    "merge",
    "quicklook",
    "read_stacks",
    "register_batch",
    "register_stack",
]
