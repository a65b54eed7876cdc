"""Merges neighbouring stacks on one grid into a mosaic, a Cloud-Optimized GeoTIFF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from affine import Affine

from holdfast import Permanent
from holdfast.apps.flood.raster import Header, Piece, inputs_hash, make_cog, quietly, read_header, virtual
from holdfast.apps.flood.stack import NEAR_PIXELS, same
from holdfast.apps.raster.storage import sha256_of

LARGEST_PIXELS = 4_000_000_000
"""The limit of one band: a mosaic of stacks from opposite ends of the world is a mistake."""


def merge(stacks: Sequence[tuple[str, Path]], target: Path, href: str) -> dict[str, Any]:
    """Merge stacks (name and path) into `target`. Where stacks overlap, the one with the later name is on top."""
    ordered = sorted(stacks)
    if not ordered:
        raise Permanent(f"There is nothing to merge into {href}: the list of stacks is empty", code="FLOOD_GROUP")
    with quietly():
        headers = [read_header(path, name) for name, path in ordered]
        first = headers[0]
        for other in headers:
            same(first, other, anywhere=True)
        origin, width, height, corners = _laid_out(headers, href)
        inputs = inputs_hash([name for name, _ in ordered], [sha256_of(path) for _, path in ordered])
        bands = {
            band: [Piece(header, number, *corner) for header, corner in zip(headers, corners, strict=True)]
            for number, band in enumerate(first.bands, start=1)
        }
        facts = make_cog(
            target,
            href,
            inputs,
            headers,
            lambda: virtual(first, width, height, origin, bands, inputs, first.datetime),
        )
    return {"stack_count": len(ordered), **facts}


def _laid_out(headers: list[Header], href: str) -> tuple[Affine, int, int, list[tuple[int, int]]]:
    """The origin and size of the mosaic, and the column and row of each stack in it."""
    first = headers[0].transform
    exact = [((header.transform.c - first.c) / first.a, (header.transform.f - first.f) / first.e) for header in headers]
    corners = [(round(column), round(row)) for column, row in exact]
    for header, (column, row), corner in zip(headers, exact, corners, strict=True):
        if max(abs(column - corner[0]), abs(row - corner[1])) > NEAR_PIXELS:
            raise Permanent(
                f"{headers[0].name} and {header.name} are not on one grid: they are {column:.3f} columns and"
                f" {row:.3f} rows apart. Resample one of them first",
                code="FLOOD_MISMATCH",
            )
    left, top = min(column for column, _ in corners), min(row for _, row in corners)
    width = max(column + header.width for header, (column, _) in zip(headers, corners, strict=True)) - left
    height = max(row + header.height for header, (_, row) in zip(headers, corners, strict=True)) - top
    if width * height > LARGEST_PIXELS:
        raise Permanent(
            f"{href} would have {width}×{height} pixels, more than the limit of {LARGEST_PIXELS:,}."
            " Merge neighbouring stacks only, into several mosaics",
            code="FLOOD_TOO_LARGE",
        )
    origin = Affine(first.a, 0, first.c + left * first.a, 0, first.e, first.f + top * first.e)
    return origin, width, height, [(c - left, r - top) for c, r in corners]
