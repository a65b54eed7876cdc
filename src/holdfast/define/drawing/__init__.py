"""Pictures of a workflow: for the terminal, for Markdown pages, and as a standalone SVG."""

from holdfast.define.drawing.mermaid import draw_mermaid
from holdfast.define.drawing.svg import draw_svg
from holdfast.define.drawing.text import draw_text

__all__ = ["draw_mermaid", "draw_svg", "draw_text"]
