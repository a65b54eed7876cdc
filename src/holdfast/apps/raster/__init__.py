"""Rasters: brought in, looked at, made into Cloud-Optimized GeoTIFFs. Nothing here needs GDAL before a handler runs."""
