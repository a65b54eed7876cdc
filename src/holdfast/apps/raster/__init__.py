"""Handlers that copy and validate rasters and make Cloud-Optimized GeoTIFFs. GDAL is loaded when a handler runs."""
