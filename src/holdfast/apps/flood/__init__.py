"""Flood maps: source tiles are inventoried, stacked into Cloud-Optimized GeoTIFFs, merged and looked at.

Serve the handlers with `--handlers holdfast.apps.flood`.
"""

from importlib.util import find_spec

if missing := [name for name in ("numpy", "PIL", "rasterio", "rio_cogeo") if find_spec(name) is None]:
    raise ImportError(
        f"holdfast.apps.flood needs {', '.join(missing)}: install with pip install 'holdfast[geo]'", name=missing[0]
    )

from holdfast.apps.flood.handlers import band_stack, inventory, merge, quicklook

__all__ = ["band_stack", "inventory", "merge", "quicklook"]
