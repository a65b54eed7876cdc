/** A plot over time. The library is loaded with the first plot. */

import { useEffect, useRef } from "react";

import "uplot/dist/uPlot.min.css";

export interface Series {
  readonly name: string;
  /** A colour of tokens.css, without the dashes. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
}

interface Props {
  readonly label: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly height?: number;
}

export function Plot({ label, times, series, height = 160 }: Props) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    let isGone = false;
    let end: (() => void) | null = null;
    void import("uplot").then(({ default: UPlot }) => {
      if (isGone) return;
      const style = getComputedStyle(box);
      const line = resolved(box, "--line");
      const axis = { stroke: resolved(box, "--text-quiet"), grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
      const plot = new UPlot(
        {
          width: box.clientWidth,
          height,
          cursor: { y: false },
          legend: { live: true },
          axes: [{ ...axis, font: `11px ${style.fontFamily}`, values: clocks }, { ...axis, font: `11px ${style.fontFamily}`, size: 44 }],
          scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, high)] } },
          series: [
            { label: "at", value: (_plot, time: number | null) => (time === null ? "–" : clockOf(time)) },
            ...series.map((one) => ({
              label: one.name,
              stroke: resolved(box, `--${one.colour}`),
              width: 2,
              points: { show: false },
            })),
          ],
        },
        [[...times], ...series.map((one) => [...one.values])],
        box,
      );
      const watcher = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height }));
      watcher.observe(box);
      end = () => {
        watcher.disconnect();
        plot.destroy();
      };
    });
    return () => {
      isGone = true;
      end?.();
    };
  }, [times, series, height]);
  return <div ref={place} className="plot" role="img" aria-label={label} style={{ minHeight: height }} />;
}

const hoursAndMinutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

function clockOf(seconds: number): string {
  return hoursAndMinutes.format(new Date(1000 * seconds));
}

function clocks(_plot: unknown, times: readonly number[]): string[] {
  return times.map(clockOf);
}

/** The colour that a token stands for now: canvases know no variables. */
function resolved(box: Element, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  box.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
