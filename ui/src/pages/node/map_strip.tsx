/** All items of a node as one strip of colours. A click jumps to the item. */

import { useEffect, useRef } from "react";

import { counted } from "../../words/numbers";
import { lookOf } from "../../words/status";
import { stripOf, type Runs } from "./order";

const HEIGHT = 28;

export function MapStrip({ runs, total, onJump }: { readonly runs: Runs; readonly total: number; readonly onJump: (index: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const shown = canvas.current;
    if (shown === null) return undefined;
    function draw(): void {
      if (shown === null) return;
      const scale = window.devicePixelRatio;
      const width = Math.max(1, Math.round(shown.clientWidth * scale));
      shown.width = width;
      shown.height = HEIGHT * scale;
      const pen = shown.getContext("2d");
      if (pen === null) return;
      const style = getComputedStyle(shown);
      const strip = stripOf(runs, width);
      const step = width / Math.max(1, strip.length);
      for (const [place, status] of strip.entries()) {
        pen.fillStyle = colourOf(shown, style, status);
        pen.fillRect(Math.floor(place * step), 0, Math.ceil(step), shown.height);
      }
    }
    const watcher = new ResizeObserver(draw);
    watcher.observe(shown);
    draw();
    return () => watcher.disconnect();
  }, [runs]);
  return (
    <canvas
      ref={canvas}
      className="map-strip"
      style={{ height: HEIGHT }}
      role="img"
      aria-label={`The statuses of ${counted(total, "item")}, in order`}
      title="Click to jump to the item"
      onClick={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        onJump(Math.min(total - 1, Math.floor((total * (event.clientX - box.left)) / box.width)));
      }}
    />
  );
}

const known = new Map<string, string>();

function colourOf(place: HTMLElement, style: CSSStyleDeclaration, status: string): string {
  const key = `${style.colorScheme} ${status} ${document.documentElement.dataset["theme"] ?? ""}`;
  const found = known.get(key);
  if (found !== undefined) return found;
  const before = place.style.color;
  place.style.color = `var(--${lookOf(status).tone})`;
  const colour = getComputedStyle(place).color;
  place.style.color = before;
  known.set(key, colour);
  return colour;
}
